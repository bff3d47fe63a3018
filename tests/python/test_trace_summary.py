"""ci.trace(summary=True): the figures of `sonde trace --summary`, in every format."""

import json
import time

import cirron as ci
import pytest
from sonde.readback import SummaryText
from sonde_command import sonde

COLUMNS = ["rank", "path", "name", "depth", "count", "open", "open_ns", "skipped", "total_ns",
           "self_ns", "mean_ns", "p50_ns", "p95_ns", "min_ns", "max_ns", "gpu_ns", "timing",
           "share_of_parent"]  # fmt: skip


def train():
    for _ in ci.epochs(range(2)):
        for _ in ci.batches(range(3)):
            with ci.scope("a<b>&c", variant="flip"):
                time.sleep(0.001)
        with ci.scope("validation"):
            pass


def flat(nodes, above=""):
    for node in nodes:
        path = f"{above}/{node['name']}" if above else node["name"]
        yield path, node
        yield from flat(node["children"], path)


def test_columns_have_their_types_where_everything_is_open(session):
    pytest.importorskip("pandas")
    with ci.scope("open"):
        frame = ci.trace(format="df", name="open", summary=True)
    assert list(frame["open"]) == [1]
    for column in ("mean_ns", "p50_ns", "p95_ns", "min_ns", "max_ns", "gpu_ns", "share_of_parent"):
        assert frame[column].dtype == "float64", column


@pytest.mark.parametrize("name", [None, "batch", "validation", "nobody"])
def test_same_numbers_as_the_command(session, workdir, capsys, name):
    train()
    ci.shutdown()
    chosen = ["--name", name] if name else []
    told = json.loads(sonde("trace", ".cirron", "--summary", "--json", *chosen).stdout)
    tree = ci.trace("dict", name, summary=True)
    assert tree == told
    assert json.loads(ci.trace("json", name, summary=True)) == told
    assert ci.trace(name=name, summary=True) is None
    printed = capsys.readouterr().out
    assert sonde("trace", ".cirron", "--summary", *chosen).stdout.endswith(printed)


def test_counts(memory):
    train()
    tree = ci.trace(format="dict", summary=True)
    (rank,) = tree["ranks"]
    found = {path: (node["count"], node["open"]) for path, node in flat(rank["roots"])}
    assert found == {
        "cirron.session": (0, 1),
        "cirron.session/epoch": (2, 0),
        "cirron.session/epoch/batch": (6, 0),
        "cirron.session/epoch/batch/a<b>&c": (6, 0),
        "cirron.session/epoch/validation": (2, 0),
    }
    assert (tree["spans"], tree["left_out"]) == (17, 0)


def test_df_and_arrow_have_a_row_per_name_and_place(memory):
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    train()
    ci.shutdown()
    frame = ci.trace(format="df", summary=True)
    assert list(frame.columns) == COLUMNS
    (rank,) = ci.trace(format="dict", summary=True)["ranks"]
    nodes = dict(flat(rank["roots"]))
    assert list(frame["path"]) == list(nodes)
    for row in frame.to_dict("records"):
        node = nodes[row["path"]]
        assert all(row[key] == node[key] for key in COLUMNS[4:] if node.get(key) is not None)
        assert (row["rank"], row["depth"]) == (0, row["path"].count("/"))
    assert frame["gpu_ns"].isna().all()
    table = arrow.table(ci.trace(format="arrow", summary=True))
    table.validate(full=True)
    pandas.testing.assert_frame_equal(table.to_pandas(), frame, check_dtype=False)


def test_nothing_recorded_is_an_empty_table(memory, capsys):
    pytest.importorskip("pandas")
    assert list(ci.trace(format="df", name="nobody", summary=True).columns) == COLUMNS
    ci.trace(name="nobody", summary=True)
    assert capsys.readouterr().out == "(no spans)\n"


def test_last_adds_up_the_last_ones(memory):
    train()
    (rank,) = ci.trace(format="dict", name="batch", last=4, summary=True)["ranks"]
    assert sum(node["count"] for _, node in flat(rank["roots"])) == 4


def test_the_number_of_spans_no_longer_held_is_shown(capsys):
    ci.Cirron(output="none", trace_buffer_max_spans=10).profile()
    for _ in range(25):
        with ci.scope("x"):
            pass
    ci.trace(summary=True)
    assert "15 older spans are not held in memory any more" in capsys.readouterr().out
    assert ci.trace(format="dict", summary=True)["left_out"] == 15


def test_the_handle_and_the_instance_do_the_same(memory):
    train()
    ci.shutdown()
    tree = ci.trace(format="dict", summary=True)
    assert memory.trace(format="dict", summary=True) == tree
    assert ci.Cirron().trace(format="dict", summary=True) == tree


def test_unknown_format(memory):
    with pytest.raises(ValueError, match="format"):
        ci.trace(format="csv", summary=True)


def test_page_is_escaped(memory):
    from sonde import _core

    train()
    page = _core.trace.summarize(None, None).html()
    assert "a&lt;b&gt;&amp;c" in page
    assert "a<b>" not in page
    assert SummaryText("text", page)._repr_html_() == page
    assert repr(SummaryText("text", page)) == "text"
