"""The stub of the extension says what the extension is: generated from it and compared."""

import ast
from pathlib import Path

import pytest
import sonde
import sonde._core
from nanobind.stubgen import StubGen

COMMITTED = Path(sonde.__file__).with_name("_core.pyi")

# What a C type shows under other names, or what every object has.
INHERITED = {"__new__", "__repr__", "__init__"}


def parse(text):
    """Public names of a stub: functions with their parameters, classes with their members."""
    functions, classes = {}, {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = parameters(node)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = {
                name for item in node.body for name in member_names(item)
            } - INHERITED
    return functions, classes


def parameters(node):
    spec = node.args
    names = [(arg.arg, "positional") for arg in [*spec.posonlyargs, *spec.args]]
    names += [(arg.arg, "keyword") for arg in spec.kwonlyargs]
    names += [(arg.arg, kind) for arg, kind in ((spec.vararg, "*"), (spec.kwarg, "**")) if arg]
    defaults = len(spec.defaults) + sum(value is not None for value in spec.kw_defaults)
    return names, defaults


def member_names(item):
    if isinstance(item, ast.FunctionDef):
        return [item.name]
    if isinstance(item, ast.AnnAssign):
        return [item.target.id]
    return []


@pytest.fixture(scope="module")
def generated():
    generator = StubGen(sonde._core)
    generator.put(sonde._core)
    return parse(generator.get())


@pytest.fixture(scope="module")
def committed():
    return parse(COMMITTED.read_text())


def test_functions_and_their_parameters(generated, committed):
    assert committed[0] == generated[0]


def test_classes_and_their_members(generated, committed):
    assert committed[1] == generated[1]


def test_a_drifted_stub_is_noticed(generated):
    drifted = parse(COMMITTED.read_text().replace("flush_interval: float", "flush_every: float"))
    assert drifted[0] != generated[0]
