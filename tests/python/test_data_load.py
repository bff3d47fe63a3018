"""`data_load_ns` of the fetches that hooks record, in every form in which a span can be read."""

import json
import re

import cirron as ci
import pytest
from child_process import run_python
from sonde_command import sonde
from spool_files import Spool

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")


def train_an_epoch():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def fetches(nodes):
    for node in nodes:
        if node["name"] == "data_load":
            yield node
        yield from fetches(node["children"])


def duration(span):
    return span["end_ns"] - span["start_ns"]


def test_every_way_of_reading_has_it(spool_dir):
    ci.profile(frameworks=["torch"], flush_interval=3600)
    train_an_epoch()
    nodes = list(fetches(ci.trace(format="dict")["roots"]))
    known = {node["id"]: {"data_load_ns": duration(node)} for node in nodes}
    assert len(known) == 3
    assert {node["id"]: node["attrs"] for node in nodes} == known
    nodes = fetches(json.loads(ci.trace(format="json"))["roots"])
    assert {node["id"]: node["attrs"] for node in nodes} == known
    rows = pyarrow.table(ci.trace(format="arrow")).to_pylist()
    rows = [row for row in rows if row["name"] == "data_load"]
    assert {row["id"]: json.loads(row["attrs"]) for row in rows} == known
    # The same while the process runs, and once it has ended.
    for _ in range(2):
        text = sonde("trace", spool_dir.parent, "--attrs").stdout
        shown = re.findall(r"data_load - \S+ \{\"data_load_ns\":(\d+)\}", text)
        assert sorted(map(int, shown)) == sorted(each["data_load_ns"] for each in known.values())
        ci.shutdown()
    spans = [span for span in Spool(spool_dir).spans if span["name"] == "data_load"]
    assert {span["id"]: span["attrs"] for span in spans} == known


def test_a_scope_of_the_programs_own_has_none(spool_dir):
    ci.profile(frameworks=["torch"])
    with ci.scope("data_load"):
        pass
    with ci.scope("data_load", source="disk"):
        pass
    ci.shutdown()
    assert [span["attrs"] for span in Spool(spool_dir).spans if span["name"] == "data_load"] == [
        {},
        {"source": "disk"},
    ]


def test_the_event_stream_has_it_too(tmp_path):
    code = """
        import sys, torch
        import cirron as ci
        ci.profile(path=sys.argv[1], frameworks=["torch"])
        for x in torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2):
            torch.nn.Linear(2, 1)(x).sum().backward()
        ci.shutdown()
    """
    done = run_python(code, tmp_path, env={"CIRRON_RUN_ID": "r1"})
    batches = [json.loads(line)["payload"] for line in done.stdout.splitlines()]
    spans = [span for batch in batches for span in batch["spans"] if span["name"] == "data_load"]
    assert len(spans) == 2
    assert all(span["attrs"] == {"data_load_ns": duration(span)} for span in spans)


def test_a_fetch_that_is_not_over_has_none(hooked):
    seen = []

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            seen.extend(fetches(ci.trace(format="dict")["roots"]))
            return torch.ones(2)

    for _ in torch.utils.data.DataLoader(Data()):
        pass
    (open_one,) = seen
    assert (open_one["end_ns"], open_one["attrs"]) == (None, {})
