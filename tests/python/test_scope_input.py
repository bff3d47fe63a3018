"""ci.scope: names, indices and attributes, good ones and bad ones."""

import gc
import json
from collections import OrderedDict
from enum import Enum
from pathlib import Path

import cirron as ci
import pytest
from spool_files import Spool, strict_json


def flushed(spool_dir):
    ci.flush()
    return Spool(spool_dir)


@pytest.mark.parametrize("name", [None, 3, b"bytes", ["x"], object()])
def test_name_has_to_be_a_string(memory, name):
    with pytest.raises(TypeError):
        ci.scope(name)


@pytest.mark.parametrize("index", ["3", 3.5, [1]])
def test_index_has_to_be_an_integer(memory, index):
    with pytest.raises(TypeError):
        ci.scope("x", index=index)


def test_scope_needs_a_name(memory):
    with pytest.raises(TypeError):
        ci.scope()
    with pytest.raises(TypeError):
        ci.scope("a", 1, 2)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ünï",
        "日本語",
        "🎉",
        'a\nb\t"c"\\',
        "nul\0inside",
        "lone \ud800 surrogate",
        "x" * 3000,
    ],
)
def test_any_string_is_a_name(session, spool_dir, name):
    with ci.scope(name, index=1) as span:
        assert span.name == name
    written = flushed(spool_dir).spans[0]
    assert written["name"] == name
    (shown,) = ci.trace(format="dict")["roots"][0]["children"]
    assert shown["name"] == name


def test_name_beyond_all_measure_is_cut(session, spool_dir):
    with ci.scope("y" * 100_000):
        pass
    with ci.scope("z"):
        pass
    long, short = flushed(spool_dir).names()
    assert set(long) == {"y"}
    assert short == "z"


def test_index_may_be_negative_zero_or_like_an_integer(session, spool_dir):
    numpy = pytest.importorskip("numpy")
    for index in (0, -5, 2**62, numpy.int64(9), True):
        with ci.scope("x", index=index):
            pass
    assert [span["index"] for span in flushed(spool_dir).named("x")] == [0, -5, 2**62, 9, 1]


class Colour(Enum):
    RED = 1


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")


PLAIN = [
    None,
    True,
    0,
    -(2**63),
    2**70,
    1.5,
    1e300,
    "text",
    "\u2028 \x01 \x7f é",
    [1, [2, None]],
    {"a": {"b": [True]}},
    [],
    {},
    "z" * 2000,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:30])
def test_attribute_that_json_can_hold(session, spool_dir, value):
    with ci.scope("x", value=value):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == {"value": value}


def test_tuples_and_subclasses_are_written_as_what_they_are(session, spool_dir):
    class Text(str):
        __slots__ = ()

    with ci.scope("x", a=(1, 2), b=OrderedDict(k=1), c=Text("t")):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == {"a": [1, 2], "b": {"k": 1}, "c": "t"}


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", Path("a/b"), 1j, Colour.RED, len, int]
)
def test_attribute_that_json_cannot_hold_is_its_repr(session, spool_dir, value):
    with ci.scope("x", bad=value, good=1):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == {"bad": repr(value), "good": 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_attribute_that_is_not_finite_is_a_string(session, spool_dir, value, text):
    with ci.scope("x", value=value, inside=[value]):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == {"value": text, "inside": [text]}


def test_attributes_that_cannot_be_written_lose_only_themselves(session, spool_dir):
    cycle = []
    cycle.append(cycle)
    deep = []
    for _ in range(10_000):
        deep = [deep]
    with ci.scope("x", a=Unprintable(), b=cycle, c=deep, d={(1, 2): 3}, e="kept"):
        pass
    with ci.scope("y"):
        pass
    spool = flushed(spool_dir)
    assert spool.one("y")
    assert spool.one("x")["attrs"]["e"] == "kept"


def test_scalars_of_numpy_and_torch_are_numbers(session, spool_dir):
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    with ci.scope(
        "x", f=numpy.float32(0.5), i=numpy.int64(3), b=numpy.bool_(True), t=torch.tensor(2.5)
    ):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == {"f": 0.5, "i": 3, "b": True, "t": 2.5}


def test_huge_attribute_does_not_cost_the_span(session, spool_dir):
    with ci.scope("x", huge="h" * 1_000_000, small=1):
        pass
    with ci.scope("y"):
        pass
    spool = flushed(spool_dir)
    assert spool.one("y")
    assert spool.one("x")


def test_many_attributes(session, spool_dir):
    attrs = {f"key_{number}": number for number in range(200)}
    with ci.scope("x", **attrs):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == attrs


def test_attribute_names_that_need_escaping(session, spool_dir):
    attrs = {'q"uote': 1, "new\nline": 2, "ünï": 3, "": 4}
    with ci.scope("x", **attrs):
        pass
    assert flushed(spool_dir).one("x")["attrs"] == attrs


def test_mutable_attribute_is_written_as_it_is_at_the_end(session, spool_dir):
    history = []
    with ci.scope("x", history=history):
        history.append(1)
    history.append(2)
    assert flushed(spool_dir).one("x")["attrs"]["history"] in ([1], [1, 2])


def test_spool_text_is_compact_utf8(session, spool_dir):
    with ci.scope("ü", a=[1, 2]):
        pass
    ci.flush()
    (file,) = spool_dir.glob("*.json")
    text = file.read_bytes().decode("utf-8")
    assert text == json.dumps(
        strict_json(text), separators=(",", ":"), ensure_ascii="ü" not in text
    )


def test_scope_used_as_a_decorator_is_refused_clearly(memory):
    with pytest.raises(TypeError):
        ci.scope("x")(print)


def test_scope_objects_are_freed():
    ci.profile(enabled=False)
    before = len(gc.get_objects())
    for _ in range(10_000):
        with ci.scope("x", a=[1]):
            pass
    gc.collect()
    assert len(gc.get_objects()) < before + 1000
