"""Whatever is recorded comes back: the spool, trace() and the program agree."""

import contextlib
import json
import math
import tempfile
from pathlib import Path

import cirron as ci
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sonde import _testing
from spool_files import Spool, strict_json

QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

texts = st.text(max_size=40)
any_texts = st.text(st.characters(), max_size=20)  # lone surrogates too
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_texts, inner, max_size=3),
    max_leaves=6,
)
attrs = st.dictionaries(
    texts.filter(lambda key: key not in ("name", "index", "kind", "value")), plain, max_size=3
)
values = st.one_of(
    st.floats(),
    st.booleans(),
    st.integers(min_value=-(2**100), max_value=2**100),
    st.text(max_size=60),
)
marks = st.tuples(texts, values, st.sampled_from(["point", "summary"]), attrs)
scopes = st.deferred(
    lambda: st.tuples(
        texts,
        st.none() | st.integers(min_value=-(2**62), max_value=2**62),
        attrs,
        st.lists(marks | scopes.map(lambda scope: ("scope", scope)), max_size=4),
    )
)
ACTIONS = ["open", "close newest", "close oldest", "close middle", "mark", "flush"]
programs = st.lists(scopes, min_size=1, max_size=4)


def run(scope):
    """Executes one scope of a program. Returns how it must be found."""
    name, index, attributes, body = scope
    found_marks, children = [], []
    with ci.scope(name, index, **attributes):
        for item in body:
            if item[0] == "scope" and isinstance(item[1], tuple):
                children.append(run(item[1]))
            else:
                mark_name, value, kind, mark_attrs = item
                ci.mark(mark_name, value, kind=kind, **mark_attrs)
                found_marks.append((mark_name, comparable(value), kind))
    return (name, index, normal(attributes), found_marks, children)


def comparable(value):
    """A value with its type, so that 1, 1.0 and True differ, and NaN equals itself."""
    if isinstance(value, str):
        while len(value.encode("utf-8", "surrogatepass")) > 256:
            value = value[:-1]
    return (type(value).__name__, repr(value))


def normal(value):
    return json.loads(json.dumps(value))


def value_of(mark):
    names = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    if mark["value"] is None:
        return comparable(names[mark["value_nonfinite"]])
    return comparable(mark["value"])


def from_spool_value(mark):
    assert ("value_nonfinite" in mark) == (mark["value"] is None)
    if mark["value"] is None:
        assert mark["value_type"] == "float"
    return value_of(mark)


def tree_of_spool(spool, span):
    children = [other for other in spool.spans if other["parent_id"] == span["id"]]
    by_id = {mark["id"]: mark for mark in spool.marks}
    listed = [by_id[mark_id] for mark_id in span["mark_ids"]]
    assert listed == spool.marks_of(span)
    return (
        span["name"],
        span["index"],
        span["attrs"],
        [(mark["name"], from_spool_value(mark), mark["kind"]) for mark in listed],
        [tree_of_spool(spool, child) for child in sorted(children, key=lambda s: s["start_ns"])],
    )


def tree_of_node(node):
    return (
        node["name"],
        node["index"],
        node["attrs"],
        sorted((mark["name"], value_of(mark), mark["kind"]) for mark in node["marks"]),
        [tree_of_node(child) for child in node["children"]],
    )


def with_sorted_marks(tree):
    name, index, attributes, found, children = tree
    return (
        name,
        index,
        attributes,
        sorted(found),
        [with_sorted_marks(child) for child in children],
    )


@QUICK
@given(programs)
def test_spool_trace_and_program_agree(program):
    ci.shutdown()
    with tempfile.TemporaryDirectory() as directory:
        ci.profile(path=directory, flush_interval=3600)
        expected = [run(scope) for scope in program]
        ci.shutdown()
        spool = Spool(Path(directory) / "spool")
        session = spool.one("cirron.session") if len(spool.named("cirron.session")) == 1 else None
        root = session or spool.spans[-1]
        _, _, _, _, children = tree_of_spool(spool, root)
        assert children == expected
        (node,) = ci.trace(format="dict")["roots"]
        assert [tree_of_node(child) for child in node["children"]] == [
            with_sorted_marks(tree) for tree in expected
        ]
        as_json = strict_json(ci.trace(format="json"))
        assert as_json["span_count"] == len(spool.spans)


@QUICK
@given(st.lists(st.sampled_from(ACTIONS), max_size=40))
def test_any_order_of_opening_and_closing_leaves_a_tree(actions):
    ci.shutdown()
    with tempfile.TemporaryDirectory() as directory:
        ci.profile(path=directory, flush_interval=3600)
        opened, total, marked = [], 0, 0
        for action in actions:
            if action == "open" and len(opened) < 60:
                scope = ci.scope("s", index=total)
                scope.__enter__()
                opened.append(scope)
                total += 1
            elif action == "mark":
                ci.mark("m", marked)
                marked += 1
            elif action == "flush":
                ci.flush()
            elif opened and action.startswith("close"):
                where = {"close newest": -1, "close oldest": 0, "close middle": len(opened) // 2}
                opened.pop(where[action]).__exit__(None, None, None)
        with ci.scope("last"):
            pass
        ci.shutdown()
        spool = Spool(Path(directory) / "spool")
        assert sorted(span["index"] for span in spool.named("s")) == list(range(total))
        assert [mark["value"] for mark in spool.marks] == list(range(marked))
        for span in spool.spans:
            path = spool.path(span)
            assert path[0] == "cirron.session"
            parent = spool.by_id.get(span["parent_id"])
            if parent is not None:
                assert parent["start_ns"] <= span["start_ns"] <= span["end_ns"] <= parent["end_ns"]
        assert len(spool.named("last")) == 1


@QUICK
@given(plain)
def test_json_writer_alters_nothing(value):
    assert strict_json(_testing.encode_json([value])) == normal([value])


@given(st.floats())
def test_json_writer_keeps_every_float(value):
    read = strict_json(_testing.encode_json(value))
    if math.isfinite(value):
        assert isinstance(read, float)
        assert repr(read) == repr(value)
    else:
        assert read in ("NaN", "Infinity", "-Infinity")


@pytest.mark.parametrize("flushes", [1, 7])
def test_batches_split_anywhere_hold_the_same(tmp_path, flushes):
    ci.profile(path=tmp_path, flush_interval=3600)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            stack.enter_context(ci.scope("level", index=number))
            ci.mark("m", number)
            if number % flushes == 0:
                ci.flush()
    ci.shutdown()
    spool = Spool(tmp_path / "spool")
    for span in spool.named("level"):
        (mark,) = spool.marks_of(span)
        assert mark["value"] == span["index"]
        assert span["mark_ids"] == [mark["id"]]
