"""`sonde snapshots`, on real runs."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from child_process import RunningPython, run_python
from sonde_command import sonde
from spool_files import Spool

torch = pytest.importorskip("torch")

# Arguments: directory, number of layers and of epochs, value of the first weight after an epoch.
TRAIN = """
    import sys, torch
    import cirron as ci

    ci.profile(path=sys.argv[1], frameworks=["torch"])
    layers, epochs, value = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with torch.no_grad():
        model[0].weight.fill_(value - 1)
        model[0].bias.zero_()
    for epoch in ci.epochs(range(epochs)):
        for x in ci.batches(torch.ones(2, 3, 2)):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        with torch.no_grad():
            model[0].weight.add_(1)
        ci.flush()
"""

WEIGHTS = ["0.weight", "0.bias"]
GRADIENTS = ["0.weight.grad", "0.bias.grad"]


def train(directory, layers=1, epochs=3, value=1.5, **env):
    return run_python(TRAIN, directory, layers, epochs, value, env=env)


def table(directory, *args):
    """A dict per line, by column; a line with a reason has only the columns before it."""
    text = sonde("snapshots", directory, *args).stdout
    titles, *rows = [line.split() for line in text.splitlines()]
    return [dict(zip(titles, row, strict=False)) for row in rows]


def places(rows):
    return [(int(row["epoch"]), row["tensor"]) for row in rows]


@pytest.fixture(scope="module")
def three_epochs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("three_epochs")
    train(directory)
    return directory


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Twelve layers, three epochs: 144 records."""
    directory = tmp_path_factory.mktemp("large")
    train(directory, layers=12)
    return directory


def test_a_line_per_epoch_and_tensor(three_epochs):
    text = sonde("snapshots", three_epochs).stdout
    titles = ["epoch", "tensor", "shape", "dtype", "mean", "std", "min", "max", "norm", "zero"]
    assert text.splitlines()[0].split() == titles
    rows = table(three_epochs)
    assert places(rows) == [(epoch, name) for epoch in range(3) for name in WEIGHTS + GRADIENTS]
    assert rows[4] == {
        "epoch": "1", "tensor": "0.weight", "shape": "[2,2]", "dtype": "float32", "mean": "2.5",
        "std": "0", "min": "2.5", "max": "2.5", "norm": "5", "zero": "0",
    }  # fmt: skip
    assert (rows[1]["tensor"], rows[1]["zero"]) == ("0.bias", "2")


def test_spans_are_found_in_other_files(three_epochs):
    # Otherwise the tests above and below test nothing.
    spool = Spool(three_epochs / "spool")
    apart = [
        record
        for batch in spool.batches
        for record in batch["snapshots"]
        if record["span_id"] not in {span["id"] for span in batch["spans"]}
    ]
    assert apart


def test_filters(three_epochs):
    assert places(table(three_epochs, "--epoch", "1", "--weights")) == [(1, n) for n in WEIGHTS]
    assert places(table(three_epochs, "--epoch", "2", "--gradients")) == [
        (2, name) for name in GRADIENTS
    ]
    assert places(table(three_epochs, "--tensor", "*.weight")) == [
        (epoch, "0.weight") for epoch in range(3)
    ]
    assert places(table(three_epochs, "--tensor", "0.[bw]*", "--epoch", "0", "--gradients")) == [
        (0, name) for name in GRADIENTS
    ]
    sonde("snapshots", three_epochs, "--weights", "--gradients", status=2)
    sonde("snapshots", three_epochs, "--json", "--csv", status=2)


def test_json_is_the_records_with_their_place(three_epochs):
    spool = Spool(three_epochs / "spool")
    records = [record for batch in spool.batches for record in batch["snapshots"]]
    expected = [
        {"epoch": spool.by_id[record["span_id"]]["index"], "run": 1, "rank": 0, **record}
        for record in records
    ]
    assert json.loads(sonde("snapshots", three_epochs, "--json").stdout) == expected
    some = json.loads(sonde("snapshots", three_epochs, "--json", "--epoch", "1").stdout)
    assert some == [record for record in expected if record["epoch"] == 1]


def test_csv_has_all_digits(three_epochs):
    rows = list(csv.DictReader(io.StringIO(sonde("snapshots", three_epochs, "--csv").stdout)))
    records = json.loads(sonde("snapshots", three_epochs, "--json").stdout)
    found = {(record["epoch"], record["tensor_name"]): record for record in records}
    assert len(rows) == len(found) == 12
    for row in rows:
        record = found[int(row["epoch"]), row["tensor"]]
        assert json.loads(row["shape"]) == record["shape"]
        assert (row["run"], row["rank"], row["dtype"]) == ("1", "0", "float32")
        assert row["unavailable"] == ""
        for key in ("mean", "std", "min", "max", "norm"):
            assert float(row[key]) == record["stats"][key]
        for key in ("count", "nan_count", "inf_count", "zero_count"):
            assert int(row[key]) == record["stats"][key]


def test_csv_for_pandas(three_epochs):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(io.StringIO(sonde("snapshots", three_epochs, "--csv").stdout))
    norms = frame.pivot(index="epoch", columns="tensor", values="norm")
    assert list(norms["0.weight"]) == [3, 5, 7]


def test_a_large_model_shows_the_newest_epoch(large):
    *lines, last = sonde("snapshots", large).stdout.splitlines()
    names = [f"{i}.{kind}" for i in range(12) for kind in ("weight", "bias")]
    shown = [line.split()[:2] for line in lines[1:]]
    assert shown == [["2", name] for name in names + [name + ".grad" for name in names]]
    assert "48 of 144 lines" in last
    assert "--epoch N" in last and "--tensor GLOB" in last and "--all" in last
    # A tensor that is named with --tensor is shown for all epochs.
    assert len(table(large, "--all")) == 144
    assert len(table(large, "--tensor", "*")) == 144
    assert places(table(large, "--epoch", "0"))[0] == (0, "0.weight")
    assert len(table(large, "--epoch", "0")) == 48
    assert len(json.loads(sonde("snapshots", large, "--json").stdout)) == 144
    assert len(sonde("snapshots", large, "--csv").stdout.splitlines()) == 145


def test_values_that_are_not_finite_have_columns(tmp_path):
    train(tmp_path, epochs=1, value="nan")
    (weight, *_) = table(tmp_path, "--weights")
    assert (weight["tensor"], weight["nan"], weight["mean"]) == ("0.weight", "4", "0")
    assert "inf" not in weight


NONFINITE = Path(__file__).parents[1] / "data" / "nonfinite"


@pytest.mark.parametrize("form", ["bare", "quoted", "named"])
def test_every_form_of_a_number_that_is_not_finite_is_read(form):
    """What Cirron SDK 0.2 wrote, what we wrote, and what Cirron SDK 0.3 writes."""
    file = NONFINITE / f"{form}.json"
    tree = sonde("trace", file).stdout
    assert "{nan=nan, inf=inf, minus_inf=-inf}" in tree
    (session,) = json.loads(sonde("trace", file, "--json").stdout)["roots"]
    assert session["children"][0]["marks"] == [
        {"name": name, "value": None, "kind": "point", "value_nonfinite": value}
        for name, value in (("nan", "nan"), ("inf", "inf"), ("minus_inf", "-inf"))
    ]
    clean, dirty = csv.DictReader(io.StringIO(sonde("snapshots", file, "--csv").stdout))
    assert (clean["mean"], clean["max"]) == ("1", "2")
    if form == "bare":  # this form has no more
        assert dirty["mean"] == "nan"
    else:
        assert (dirty["mean"], dirty["max"], dirty["nan_count"]) == ("1", "2", "2")
        assert dirty["norm"] == clean["norm"]


def test_no_statistics_has_a_dash_and_the_reason(tmp_path):
    run_python(
        """
        import sys, torch
        import cirron as ci
        ci.profile(path=sys.argv[1], frameworks=["torch"])
        model = torch.nn.Linear(2, 3, device="meta")
        ci.watch(model)
        for epoch in ci.epochs(range(1)):
            pass
        """,
        tmp_path,
    )
    (record, _) = json.loads(sonde("snapshots", tmp_path, "--json").stdout)
    line = sonde("snapshots", tmp_path).stdout.splitlines()[1]
    reason = record["attrs"]["unavailable"]
    assert line.split(maxsplit=9) == ["0", "weight", "[3,2]", "float32", *5 * "-", reason]
    (row, _) = csv.DictReader(io.StringIO(sonde("snapshots", tmp_path, "--csv").stdout))
    assert (row["mean"], row["nan_count"], row["unavailable"]) == ("", "", reason)


def test_runs(tmp_path):
    for value in (1, 10):
        train(tmp_path, epochs=1, value=value)
    both = table(tmp_path, "--tensor", "0.weight")
    assert [(row["run"], row["epoch"], row["min"]) for row in both] == [
        ("1", "0", "1"), ("2", "0", "10"),
    ]  # fmt: skip
    for run, least in (("1", "1"), ("2", "10"), ("last", "10")):
        (row,) = table(tmp_path, "--tensor", "0.weight", "--run", run)
        assert row["min"] == least
        assert "run" not in row
    records = json.loads(sonde("snapshots", tmp_path, "--json", "--run", "last").stdout)
    assert {record["run"] for record in records} == {2}
    none = sonde("snapshots", tmp_path, "--run", "3")
    assert none.stdout == "(no snapshots)\n"
    assert "there is no run 3" in none.stderr and "holds runs 1 to 2" in none.stderr
    assert json.loads(sonde("snapshots", tmp_path, "--run", "3", "--json").stdout) == []
    assert "--run" in sonde("snapshots", tmp_path, "--run", "0", status=2).stderr


def test_ranks_have_a_column(tmp_path):
    for rank in (1, 0):
        train(tmp_path, epochs=1, value=rank, RANK=str(rank), WORLD_SIZE="2")
    rows = table(tmp_path, "--tensor", "0.weight")
    assert sorted((row["rank"], row["min"]) for row in rows) == [("0", "0"), ("1", "1")]
    (row,) = table(tmp_path, "--tensor", "0.weight", "--rank", "1")
    assert row["min"] == "1"
    assert "rank" not in row
    none = sonde("snapshots", tmp_path, "--rank", "7")
    assert none.stdout == "(no snapshots)\n"
    assert none.stderr == "sonde: no span has rank 7; the ranks are: 0, 1\n"


def test_what_there_is_instead(three_epochs, tmp_path):
    wrong = sonde("snapshots", three_epochs, "--tensor", "1.*")
    assert wrong.stdout == "(no snapshots)\n"
    assert "0.bias, 0.bias.grad, 0.weight, 0.weight.grad" in wrong.stderr
    none = sonde("snapshots", three_epochs, "--epoch", "7")
    assert "no snapshot of epoch 7; the epochs are: 0, 1, 2" in none.stderr
    run_python("import sys, cirron as ci; ci.profile(path=sys.argv[1], frameworks=[])", tmp_path)
    nothing = sonde("snapshots", tmp_path)
    assert nothing.stdout == "(no snapshots)\n"
    assert "nothing was captured" in nothing.stderr
    assert len(sonde("snapshots", tmp_path, "--csv").stdout.splitlines()) == 1


def test_fails_as_trace_does_where_there_is_nothing(tmp_path):
    for place in (tmp_path, tmp_path / "nothing"):
        failed = sonde("snapshots", place, status=1)
        assert failed.stderr == sonde("trace", place, status=1).stderr
    (tmp_path / "only.json").write_text("garbage")
    sonde("snapshots", tmp_path, status=1)


def test_skips_what_it_cannot_read(three_epochs, tmp_path):
    shutil.copytree(three_epochs / "spool", tmp_path / "spool")
    (tmp_path / "spool" / "0.json").write_text('{"schema_version": 1, "spans": [')
    done = sonde("snapshots", tmp_path)
    assert done.stdout == sonde("snapshots", three_epochs).stdout
    assert done.stderr.count("0.json") == 1
    assert "1 of " in done.stderr


def test_epochs_that_are_gone_are_not_known(three_epochs, tmp_path):
    spool = Spool(three_epochs / "spool")
    batch = next(each for each in spool.batches if each["snapshots"])
    file = tmp_path / "one.json"
    file.write_text(json.dumps(batch | {"spans": []}))
    rows = table(file)
    assert [row["tensor"] for row in rows] == [each["tensor_name"] for each in batch["snapshots"]]
    assert {row["epoch"] for row in rows} == {"-"}
    record = json.loads(sonde("snapshots", file, "--json").stdout)[0]
    assert (record["epoch"], record["run"], record["rank"]) == (None, None, None)
    assert sonde("snapshots", file, "--run", "last").stdout == "(no snapshots)\n"


def test_while_it_runs(tmp_path):
    code = (
        TRAIN
        + """
    ci.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    """
    )
    with RunningPython(code, tmp_path, 1, 2, 1.5) as run:
        run.wait_for()
        assert places(table(tmp_path, "--tensor", "0.weight")) == [(0, "0.weight"), (1, "0.weight")]
        run.finish("go\n")
