"""The stubs of the extension say what the extension is: generated from it and compared."""

import ast
from pathlib import Path
from types import ModuleType

import pytest
import sonde
import sonde._core
from nanobind.stubgen import StubGen

COMMITTED = Path(sonde.__file__).with_name("_core")
GROUPS = sorted(path.stem for path in COMMITTED.glob("*.pyi"))

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


def stub_of(group):
    return (COMMITTED / f"{group}.pyi").read_text()


def generate(group):
    module = sonde._core if group == "__init__" else getattr(sonde._core, group)
    # Each group has a stub of its own; in that of the whole they are left out.
    generator = StubGen(module, recursive=False)
    generator.put(module)
    return parse(generator.get())


def test_every_group_has_a_stub():
    groups = {name for name, each in vars(sonde._core).items() if isinstance(each, ModuleType)}
    assert {*GROUPS} == groups | {"__init__"}


@pytest.mark.parametrize("group", GROUPS)
def test_functions_and_their_parameters(group):
    assert parse(stub_of(group))[0] == generate(group)[0]


@pytest.mark.parametrize("group", GROUPS)
def test_classes_and_their_members(group):
    assert parse(stub_of(group))[1] == generate(group)[1]


def test_a_drifted_stub_is_noticed():
    drifted = parse(stub_of("session").replace("at_exit: bool", "at_end: bool"))
    assert drifted[0] != generate("session")[0]
