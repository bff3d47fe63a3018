"""ci.trace: every format, both filters, open spans, and readers of Arrow."""

import builtins
import json
import re
import threading
import time

import cirron as ci
import pytest
from child_process import run_python
from sonde import _core
from spool_files import SPAN_KEYS, strict_json

NODE_KEYS = ["id", "parent_id", "name", "index", "start_ns", "end_ns", "wall_us", "cpu_ns",
             "gpu_ns", "memory_peak_bytes", "attrs", "marks", "children"]  # fmt: skip
COLUMNS = ["id", "parent_id", "name", "index", "wall_us", "cpu_ns", "gpu_ns", "memory_peak_bytes",
           "mark_count", "depth", "start_ns", "attrs", "marks"]  # fmt: skip
DURATION = r"(?:\d+us|\d+\.\dms|\d+\.\d\ds)"


def test_columns_and_properties_come_from_the_table_of_fields():
    assert list(_core.trace.COLUMNS) == COLUMNS
    properties = {name for name in dir(_core.scope) if not name.startswith("_")}
    assert properties == {*SPAN_KEYS, "marks"} - {"mark_ids"}


def train():
    for epoch in ci.epochs(range(2)):
        for batch in ci.batches(range(3)):
            with ci.scope("augment", variant="flip"):
                pass
            ci.mark("loss", 1.0 / (1 + epoch + batch))
        ci.mark("epoch_loss", 0.5234, kind="summary")


def nodes(tree):
    """All nodes of a dict trace, parents first."""
    todo = list(tree["roots"])
    while todo:
        node = todo.pop(0)
        yield node
        todo.extend(node["children"])


# -- tree ------------------------------------------------------------------------------------------


def test_tree_text(memory, capsys):
    train()
    assert ci.trace() is None
    lines = capsys.readouterr().out.splitlines()
    shape = [re.sub(DURATION, "T", line) for line in lines]
    epoch = [
        "  epoch[0] - T {epoch_loss=0.5234}",
        "    batch[0] - T {loss=1.0000}",
        "      augment - T",
        "    batch[1] - T {loss=0.5000}",
        "      augment - T",
        "    batch[2] - T {loss=0.3333}",
        "      augment - T",
    ]
    assert shape[:8] == ["cirron.session - running, T", *epoch]
    assert len(shape) == 15


def test_tree_of_nothing():
    assert run_python("import cirron as ci; ci.trace()").stdout == "(no spans)\n"


def test_tree_of_nothing_that_matches(memory, capsys):
    ci.trace(name="no such scope")
    assert capsys.readouterr().out == "(no spans)\n"


def test_marks_in_the_tree(memory, capsys):
    with ci.scope("x"):
        ci.mark("f", 0.25)
        ci.mark("f", 2.0)
        ci.mark("lr", 1e-5)
        ci.mark("zero", 0.0)
        ci.mark("i", 3)
        ci.mark("flag", True)
        ci.mark("text", "some words")
    ci.trace(name="x")
    line = capsys.readouterr().out.strip()
    assert line.endswith(
        "{f=0.2500, f=2.0000, lr=1e-05, zero=0.0000, i=3, flag=True, text=some words}"
    )


def test_open_spans_are_shown_as_open(memory, capsys):
    with ci.scope("outer"):
        with ci.scope("done"):
            pass
        with ci.scope("inner", index=4):
            ci.mark("m", 1)
            ci.trace()
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"cirron\.session - running, {DURATION}", lines[0])
    assert re.fullmatch(rf"  outer - running, {DURATION}", lines[1])
    assert re.fullmatch(rf"    done - {DURATION}", lines[2])
    assert re.fullmatch(rf"    inner\[4\] - running, {DURATION} {{m=1}}", lines[3])


def test_open_spans_say_how_long_they_have_been_open(memory):
    import pyarrow

    with ci.scope("outer"):
        time.sleep(0.02)
        (session,) = ci.trace(format="dict")["roots"]
        rows = pyarrow.table(ci.trace(format="arrow")).to_pylist()
        frame = ci.trace(format="df")
    (outer,) = session["children"]
    assert outer["end_ns"] is None and outer["wall_us"] >= 20_000
    assert session["wall_us"] >= outer["wall_us"]
    (row,) = [row for row in rows if row["name"] == "outer"]
    assert row["end_ns"] is None and row["wall_us"] >= outer["wall_us"]
    assert frame[frame["name"] == "outer"]["wall_us"].iloc[0] >= row["wall_us"]


def test_open_spans_of_other_threads_are_shown(memory):
    inside, leave = threading.Event(), threading.Event()

    def work():
        with ci.scope("elsewhere"):
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(20)
    (node,) = ci.trace(format="dict", name="elsewhere")["roots"]
    leave.set()
    thread.join()
    assert node["end_ns"] is None
    (node,) = ci.trace(format="dict", name="elsewhere")["roots"]
    assert node["end_ns"] is not None


# -- dict and json ---------------------------------------------------------------------------------


def test_dict(memory):
    train()
    tree = ci.trace(format="dict")
    assert list(tree) == ["roots", "span_count"]
    found = list(nodes(tree))
    assert tree["span_count"] == len(found) == 1 + 2 + 6 + 6
    for node in found:
        assert [key for key in node if key in NODE_KEYS] == NODE_KEYS
        for child in node["children"]:
            assert child["parent_id"] == node["id"]
        starts = [child["start_ns"] for child in node["children"]]
        assert starts == sorted(starts)
    (root,) = tree["roots"]
    assert root["name"] == "cirron.session"
    epoch = root["children"][0]
    assert epoch["marks"] == [{"name": "epoch_loss", "value": 0.5234, "kind": "summary"}]
    assert epoch["wall_us"] == (epoch["end_ns"] - epoch["start_ns"]) // 1000
    assert epoch["children"][0]["children"][0]["attrs"] == {"variant": "flip"}


def test_open_node(memory):
    with ci.scope("open"):
        (node,) = ci.trace(format="dict", name="open")["roots"]
    assert node["end_ns"] is None


def test_json_is_the_dict(memory):
    train()
    with ci.scope("odd", bad={1}, nan=float("nan"), name_="ünï"):
        ci.mark("nan", float("nan"))
    ci.shutdown()
    text = ci.trace(format="json")
    assert isinstance(text, str)
    tree = strict_json(text)
    plain = strict_json(json.dumps(ci.trace(format="dict")))
    assert tree["span_count"] == plain["span_count"]
    assert [node["id"] for node in nodes(tree)] == [node["id"] for node in nodes(plain)]
    for node, same in zip(nodes(tree), nodes(plain), strict=True):
        assert [key for key in node if key in NODE_KEYS] == NODE_KEYS
        assert node["marks"] == same["marks"]
    (odd,) = (node for node in nodes(tree) if node["name"] == "odd")
    assert odd["attrs"]["nan"] == "NaN"
    assert odd["marks"] == [
        {"name": "nan", "value": None, "kind": "point", "value_nonfinite": "nan"}
    ]


# -- df --------------------------------------------------------------------------------------------


def test_df(memory):
    pytest.importorskip("pandas")
    train()
    frame = ci.trace(format="df")
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 15
    assert sorted(frame["name"].unique()) == ["augment", "batch", "cirron.session", "epoch"]
    depth = frame.groupby("name")["depth"].unique()
    assert {name: list(values) for name, values in depth.items()} == {
        "cirron.session": [0],
        "epoch": [1],
        "batch": [2],
        "augment": [3],
    }
    batches = frame[frame["name"] == "batch"]
    assert list(batches["mark_count"]) == [1] * 6
    assert list(batches["index"]) == [0, 1, 2, 0, 1, 2]
    by_id = frame.set_index("id")
    parents = by_id.loc[batches["parent_id"]]
    assert set(parents["name"]) == {"epoch"}


def test_df_has_start_attributes_and_marks(memory):
    pytest.importorskip("pandas")
    train()
    with ci.scope("odd", bad="ünï", deep={"a": [1, 2]}):
        ci.mark("nan", float("nan"))
        ci.mark("text", 'a "quoted" one', kind="summary")
        ci.mark("huge", 2**80)
    frame = ci.trace(format="df")
    tree = {node["id"]: node for node in nodes(ci.trace(format="dict"))}
    for row in frame.to_dict("records"):
        node = tree[row["id"]]
        assert row["start_ns"] == node["start_ns"]
        if node["name"] != "cirron.session":
            assert json.loads(row["attrs"]) == node["attrs"]
        assert strict_json(row["marks"]) == node["marks"]
    assert list(frame[frame["name"] == "augment"]["attrs"].unique()) == ['{"variant":"flip"}']


@pytest.mark.parametrize("name", [None, "batch"])
def test_df_without_pyarrow_is_the_same(memory, monkeypatch, name):
    pandas = pytest.importorskip("pandas")
    train()
    ci.shutdown()
    frame = ci.trace(format="df", name=name)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    other = ci.trace(format="df", name=name)
    pandas.testing.assert_frame_equal(frame, other, check_dtype=False)


def test_df_is_fit_for_statistics(memory):
    pytest.importorskip("pandas")
    train()
    frame = ci.trace(format="df", name="batch")
    quantile = frame[frame["name"] == "batch"]["wall_us"].quantile(0.5)
    assert quantile >= 0
    assert frame["cpu_ns"].isna().all()
    assert frame[frame["index"] == 1]["name"].eq("batch").all()


def test_empty_df_has_its_columns(memory):
    pytest.importorskip("pandas")
    frame = ci.trace(format="df", name="no such scope")
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 0


def test_df_without_pandas(memory, monkeypatch):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    monkeypatch.setattr(builtins, "__import__", refuse)
    for call in (ci.trace, ci.get_default().trace, memory.trace):
        with pytest.raises(ci.CirronDependencyError, match="pandas"):
            call(format="df")


# -- arrow -----------------------------------------------------------------------------------------


def test_arrow_read_by_pyarrow(memory):
    pa = pytest.importorskip("pyarrow")
    train()
    table = pa.table(ci.trace(format="arrow"))
    assert set(COLUMNS) <= set(table.column_names)
    assert table.num_rows == 15
    table.validate(full=True)
    tree = {node["id"]: node for node in nodes(ci.trace(format="dict"))}
    for row in table.to_pylist():
        node = tree[row["id"]]
        for key in ("parent_id", "name", "index", "cpu_ns", "gpu_ns", "memory_peak_bytes"):
            assert row[key] == node[key], key
        assert row["mark_count"] == len(node["marks"])


def test_arrow_matches_df(memory):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    train()
    ci.shutdown()
    table = pa.table(ci.trace(format="arrow"))
    frame = ci.trace(format="df")
    for column in COLUMNS:
        missing = frame[column].isna()
        plain = [
            None if gone else value for value, gone in zip(frame[column], missing, strict=True)
        ]
        assert table.column(column).to_pylist() == plain, column


def test_arrow_read_by_pandas(memory):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    if not hasattr(pandas.DataFrame, "from_arrow"):
        pytest.skip("DataFrame.from_arrow came with pandas 3")
    train()
    frame = pandas.DataFrame.from_arrow(ci.trace(format="arrow"))
    assert set(COLUMNS) <= set(frame.columns)
    assert len(frame) == 15


def test_arrow_read_by_polars(memory):
    pl = pytest.importorskip("polars")
    train()
    frame = pl.DataFrame(ci.trace(format="arrow"))
    assert set(COLUMNS) <= set(frame.columns)
    assert frame.filter(pl.col("name") == "batch").height == 6


def test_arrow_read_by_duckdb(memory):
    duckdb = pytest.importorskip("duckdb")
    train()
    spans = ci.trace(format="arrow")
    rows = duckdb.sql("select name, count(*) from spans group by name order by name").fetchall()
    assert spans is not None
    assert rows == [("augment", 6), ("batch", 6), ("cirron.session", 1), ("epoch", 2)]


def test_empty_arrow_has_its_columns(memory):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(ci.trace(format="arrow", name="no such scope"))
    assert table.num_rows == 0
    assert set(COLUMNS) <= set(table.column_names)


def test_arrow_outlives_session_and_object(memory):
    pa = pytest.importorskip("pyarrow")
    train()
    stream = ci.trace(format="arrow")
    ci.shutdown()
    reader = pa.RecordBatchReader.from_stream(stream)
    del stream
    ci.profile(output="none")
    table = reader.read_all()
    ci.shutdown()
    assert table.num_rows == 15
    assert table.column("name").to_pylist().count("batch") == 6


def test_arrow_may_be_read_more_than_once_or_says_so(memory):
    pa = pytest.importorskip("pyarrow")
    train()
    stream = ci.trace(format="arrow")
    first = pa.table(stream)
    assert pa.table(stream).equals(first)


# -- filters ---------------------------------------------------------------------------------------


def test_name_keeps_spans_and_their_descendants(memory):
    train()
    tree = ci.trace(format="dict", name="batch")
    assert tree["span_count"] == 12
    assert [node["name"] for node in tree["roots"]] == ["batch"] * 6
    assert all(
        [child["name"] for child in node["children"]] == ["augment"] for node in tree["roots"]
    )


def test_last_keeps_the_spans_that_closed_last(memory):
    for number in range(10):
        with ci.scope("x", index=number):
            pass
    ci.shutdown()
    tree = ci.trace(format="dict", last=3)
    assert sorted(str(node["index"]) for node in nodes(tree)) == ["8", "9", "None"]
    assert tree["span_count"] == 3


@pytest.mark.parametrize("last", [0, -1, -(2**40)])
def test_last_of_nothing(memory, last):
    train()
    assert ci.trace(format="dict", last=last) == {"roots": [], "span_count": 0}


def test_last_beyond_what_there_is(memory):
    train()
    ci.shutdown()
    assert ci.trace(format="dict", last=10**6)["span_count"] == 15


def test_name_before_last(memory):
    for number in range(5):
        with ci.scope("a", index=number):
            pass
        with ci.scope("b", index=number):
            pass
    tree = ci.trace(format="dict", name="a", last=2)
    assert sorted(node["index"] for node in tree["roots"]) == [3, 4]


def test_filters_apply_to_every_format(memory, capsys):
    pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    train()
    ci.trace(name="epoch")
    assert capsys.readouterr().out.count("epoch[") == 2
    assert json.loads(ci.trace("json", "epoch"))["span_count"] == 14
    assert len(ci.trace("df", "epoch")) == 14
    assert pa.table(ci.trace("arrow", "epoch")).num_rows == 14


@pytest.mark.parametrize("bad", ["Tree", "csv", "", None, 3])
def test_unknown_format(memory, bad):
    with pytest.raises(ValueError, match="format"):
        ci.trace(format=bad)


def test_bad_filters(memory):
    with pytest.raises(TypeError):
        ci.trace(format="dict", name=3)
    with pytest.raises(TypeError):
        ci.trace(format="dict", last="three")


# -- where it reads from ---------------------------------------------------------------------------


def test_without_a_session_it_reads_memory_and_writes_nothing(workdir, capsys):
    with ci.scope("lonely"):
        pass
    ci.trace(name="lonely")
    assert re.fullmatch(rf"lonely - {DURATION}\n", capsys.readouterr().out)
    assert list(workdir.iterdir()) == []


def test_after_shutdown_the_session_can_still_be_read(session):
    train()
    ci.shutdown()
    tree = ci.trace(format="dict")
    assert tree["span_count"] == 15
    assert tree["roots"][0]["end_ns"] is not None


def test_the_handle_reads_the_same(memory):
    train()
    assert memory.trace(format="dict", name="epoch") == ci.trace(format="dict", name="epoch")


def test_buffer_keeps_the_newest_spans():
    ci.Cirron(output="none", trace_buffer_max_spans=10).profile()
    for number in range(100):
        with ci.scope("x", index=number):
            ci.mark("n", number)
    ci.flush()
    kept = ci.trace(format="dict", name="x")["roots"]
    assert [node["index"] for node in kept] == list(range(90, 100))
    assert [node["marks"][0]["value"] for node in kept] == list(range(90, 100))


def test_buffer_holds_at_least_one_span():
    ci.Cirron(output="none", trace_buffer_max_spans=0).profile()
    for number in range(5):
        with ci.scope("x", index=number):
            pass
    assert [node["index"] for node in ci.trace(format="dict", name="x")["roots"]] == [4]


def test_point_marks_of_one_span_are_bounded(memory):
    with ci.scope("x"):
        ci.mark("first", 1, kind="summary")
        for number in range(3000):
            ci.mark("n", number)
    (node,) = ci.trace(format="dict", name="x")["roots"]
    points = [mark["value"] for mark in node["marks"] if mark["kind"] == "point"]
    assert points == list(range(3000 - 1024, 3000))
    assert [mark["name"] for mark in node["marks"] if mark["kind"] == "summary"] == ["first"]


def test_standard_output_that_is_closed_does_not_matter_for_the_other_formats():
    run_python(
        """
        import sys
        import cirron as ci
        sys.stdout = None
        ci.profile(output="none")
        assert ci.trace(format="dict")["span_count"] == 1
        ci.trace()
        """
    )
