"""ci.mark: values and their types, the span a mark belongs to, bad input."""

import sys
import threading
import time

import cirron as ci
import pytest
from spool_files import Spool


def flushed(spool_dir):
    ci.flush()
    return Spool(spool_dir)


def test_fields(session, spool_dir):
    before = time.time_ns()
    with ci.scope("x"):
        ci.mark("loss", 0.5, unit="nats")
        ci.mark("accuracy", 0.9, kind="summary")
    after = time.time_ns()
    spool = flushed(spool_dir)
    loss, accuracy = spool.marks
    assert loss["span_id"] == spool.one("x")["id"]
    assert before - 1_000_000 <= loss["ts_ns"] <= accuracy["ts_ns"] <= after + 1_000_000
    assert (loss["name"], loss["value_type"], loss["value"]) == ("loss", "float", 0.5)
    assert (loss["attrs"], loss["kind"]) == ({"unit": "nats"}, "point")
    assert (accuracy["attrs"], accuracy["kind"]) == ({}, "summary")
    assert spool.one("x")["mark_ids"] == [loss["id"], accuracy["id"]]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0.5, "float"),
        (-0.0, "float"),
        (5e-324, "float"),
        (sys.float_info.max, "float"),
        (0.1 + 0.2, "float"),
        (3, "int"),
        (-(2**63), "int"),
        (2**63, "int"),
        (-(10**40), "int"),
        (True, "bool"),
        (False, "bool"),
        ("text", "string"),
        ("", "string"),
        ("ünï\n🎉", "string"),
        ("nul\0inside", "string"),
        ("lone \udfff surrogate", "string"),
    ],
)
def test_value_comes_back_exactly(session, spool_dir, value, kind):
    with ci.scope("x"):
        ci.mark("m", value)
    mark = flushed(spool_dir).mark("m")
    assert (mark["value"], mark["value_type"]) == (value, kind)
    assert type(mark["value"]) is type(value)
    (shown,) = ci.trace(format="dict", name="x")["roots"][0]["marks"]
    assert shown == {"name": "m", "value": value, "kind": "point"}


def test_subclasses_are_what_they_are_a_kind_of(session, spool_dir):
    class Loss(float):
        pass

    class Step(int):
        pass

    ci.mark("f", Loss(0.5))
    ci.mark("i", Step(3))
    spool = flushed(spool_dir)
    assert (spool.mark("f")["value"], spool.mark("f")["value_type"]) == (0.5, "float")
    assert (spool.mark("i")["value"], spool.mark("i")["value_type"]) == (3, "int")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a" * 256, 256),
        ("a" * 257, 256),
        ("é" * 200, 128),
        ("a" + "é" * 200, 128),
        ("🎉" * 100, 64),
        ("a" * 100_000, 256),
    ],
)
def test_long_text_is_cut_on_a_character(session, spool_dir, text, kept):
    ci.mark("m", text)
    assert flushed(spool_dir).mark("m")["value"] == text[:kept]


@pytest.mark.parametrize("value", [None, [1], (1,), {}, b"bytes", 1j, object(), print])
def test_other_types_are_refused(memory, value):
    with pytest.raises(TypeError, match="float, int, str, or bool"):
        ci.mark("m", value)


@pytest.mark.parametrize("kind", ["Point", "", "series", None, 3])
def test_unknown_kind_is_refused(memory, kind):
    with pytest.raises((ValueError, TypeError), match="kind"):
        ci.mark("m", 1, kind=kind)


def test_kind_is_judged_before_the_value(memory):
    with pytest.raises(ValueError, match="kind"):
        ci.mark("m", None, kind="bogus")


@pytest.mark.parametrize("name", [None, 3, b"bytes"])
def test_name_has_to_be_a_string(memory, name):
    with pytest.raises(TypeError):
        ci.mark(name, 1)


def test_bad_marks_leave_nothing(session, spool_dir):
    with ci.scope("x"):
        for value in (None, [1]):
            with pytest.raises(TypeError):
                ci.mark("bad", value)
        ci.mark("good", 1)
    spool = flushed(spool_dir)
    assert [mark["name"] for mark in spool.marks] == ["good"]


def test_bad_input_is_refused_also_when_profiling_is_off_or_absent():
    with pytest.raises(ValueError, match="kind"):
        ci.mark("m", 1, kind="bogus")


# -- the span of a mark ----------------------------------------------------------------------------


def test_innermost_open_scope(session, spool_dir):
    with ci.scope("outer"):
        ci.mark("a", 1)
        with ci.scope("inner"):
            ci.mark("b", 2)
        ci.mark("c", 3)
    spool = flushed(spool_dir)
    assert [mark["name"] for mark in spool.marks_of(spool.one("outer"))] == ["a", "c"]
    assert [mark["name"] for mark in spool.marks_of(spool.one("inner"))] == ["b"]


def test_session_when_no_scope_is_open(session, spool_dir):
    ci.mark("m", 1)
    thread = threading.Thread(target=ci.mark, args=("from a thread", 2))
    thread.start()
    thread.join()
    ci.shutdown()
    spool = Spool(spool_dir)
    root = spool.one("cirron.session")
    assert [mark["name"] for mark in spool.marks_of(root)] == ["m", "from a thread"]
    assert root["mark_ids"] == []


def test_root_when_there_is_no_session(spool_dir):
    ci.mark("m", 1)
    ci.profile()
    ci.flush()
    assert Spool(spool_dir).mark("m")["span_id"] == "root"


def test_marks_of_one_span_come_in_order(session, spool_dir):
    with ci.scope("x"):
        for number in range(1000):
            ci.mark("n", number)
    spool = flushed(spool_dir)
    assert [mark["value"] for mark in spool.marks] == list(range(1000))
    assert spool.one("x")["mark_ids"] == [mark["id"] for mark in spool.marks]


def test_mark_attributes_follow_the_rules_of_scope_attributes(session, spool_dir):
    ci.mark("m", 1, bad={1, 2}, nan=float("nan"), nested={"a": [1]})
    attrs = flushed(spool_dir).mark("m")["attrs"]
    assert attrs == {"bad": "{1, 2}", "nan": "NaN", "nested": {"a": [1]}}


def test_marks_of_an_open_span_are_written_before_it_closes(session, spool_dir):
    with ci.scope("long") as span:
        ci.mark("m", 1)
        ci.flush()
        assert Spool(spool_dir).mark("m")["span_id"] == span.id
    spool = flushed(spool_dir)
    assert spool.one("long")["mark_ids"] == [spool.mark("m")["id"]]


# -- numpy and torch -------------------------------------------------------------------------------


def test_numpy_scalars(session, spool_dir):
    np = pytest.importorskip("numpy")
    values = {
        "float64": (np.float64(0.5), "float", 0.5),
        "float32": (np.float32(0.25), "float", 0.25),
        "float16": (np.float16(0.125), "float", 0.125),
        "int64": (np.int64(-3), "int", -3),
        "uint64": (np.uint64(2**64 - 1), "int", 2**64 - 1),
        "int8": (np.int8(5), "int", 5),
        "bool": (np.bool_(True), "bool", True),
        "str": (np.str_("text"), "string", "text"),
        "zero_d": (np.array(1.5), "float", 1.5),
        "nan": (np.float32("nan"), "float", None),
    }
    for name, (value, _, _) in values.items():
        ci.mark(name, value)
    spool = flushed(spool_dir)
    for name, (_, kind, plain) in values.items():
        mark = spool.mark(name)
        assert (mark["value_type"], mark["value"]) == (kind, plain), name
    assert spool.mark("nan")["value_nonfinite"] == "nan"


def test_torch_scalars(session, spool_dir):
    torch = pytest.importorskip("torch")
    values = {
        "float": (torch.tensor(0.5), "float", 0.5),
        "half": (torch.tensor(0.25, dtype=torch.bfloat16), "float", 0.25),
        "int": (torch.tensor(3), "int", 3),
        "bool": (torch.tensor(True), "bool", True),
        "one": (torch.tensor([1.5]), "float", 1.5),
        "grad": (torch.tensor(2.0, requires_grad=True), "float", 2.0),
    }
    for name, (value, _, _) in values.items():
        ci.mark(name, value)
    spool = flushed(spool_dir)
    for name, (_, kind, plain) in values.items():
        mark = spool.mark(name)
        assert (mark["value_type"], mark["value"]) == (kind, plain), name


def test_arrays_and_tensors_of_more_than_one_value_are_refused(memory):
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    for value in (np.zeros(2), np.zeros((0,)), torch.zeros(2), torch.zeros(0), np.complex64(1j)):
        with pytest.raises(TypeError, match="float, int, str, or bool"):
            ci.mark("m", value)


# -- not finite, in every form -----------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")],
)
def test_value_that_is_not_finite(session, spool_dir, capsys, value, name):
    with ci.scope("x"):
        ci.mark("m", value)
    mark = flushed(spool_dir).mark("m")
    assert (mark["value"], mark["value_type"]) == (None, "float")
    assert list(mark)[-1] == "value_nonfinite"
    assert mark["value_nonfinite"] == name
    ci.trace(name="x")
    assert f"{{m={name}}}" in capsys.readouterr().out
    (found,) = ci.trace(format="dict", name="x")["roots"][0]["marks"]
    assert found == {"name": "m", "value": None, "kind": "point", "value_nonfinite": name}
