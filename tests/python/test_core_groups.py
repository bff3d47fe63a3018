"""The functions of the extension are in groups, and the packages use all of them."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest
import sonde
from child_process import run_python
from sonde import _core

ROOT = Path(__file__).resolve().parents[2]
GROUPS = sorted(path.stem for path in Path(sonde.__file__).parent.glob("_core/[a-z]*.pyi"))


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_can_be_imported_by_its_name(group):
    module = importlib.import_module(f"sonde._core.{group}")
    assert module is getattr(_core, group)
    assert module.__name__ == f"sonde._core.{group}"
    assert module.__doc__


def test_the_packages_do_not_need_what_only_tests_have():
    files = [f for name in ("sonde", "cirron") for f in (ROOT / "python" / name).rglob("*.py")]
    assert files
    assert not [file for file in files if "_testing" in file.read_text()]


def test_the_packages_use_every_function():
    files = [f for name in ("sonde", "cirron") for f in (ROOT / "python" / name).rglob("*.py")]
    used = set(re.findall(r"\b_core\.(\w+\.\w+)", "\n".join(f.read_text() for f in files)))
    stubs = {group: (ROOT / "python/sonde/_core" / f"{group}.pyi").read_text() for group in GROUPS}
    there = {
        f"{group}.{node.name}"
        for group, text in stubs.items()
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    assert len(there) > 50
    assert there - used == set()


def test_the_packages_use_every_name_of_an_attribute():
    stub = ast.parse((ROOT / "python/sonde/_core/attrs.pyi").read_text())
    names = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert names == {name for name in vars(_core.attrs) if name.isupper()}
    assert all(isinstance(getattr(_core.attrs, name), str) for name in names)
    files = (ROOT / "python/sonde").rglob("*.py")
    used = set(re.findall(r"\battrs\.([A-Z_]+)\b", "\n".join(f.read_text() for f in files)))
    assert names == used


def test_the_wheel_has_the_extension_alone():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert settings["build"]["targets"] == ["_core"]
    assert settings["install"]["components"] == ["python"]


def test_torch_is_attached_only_where_the_program_has_it():
    run_python(
        """
        import sys
        from sonde import _core

        for _ in range(2):
            try:
                _core.torch.find_functions()
            except RuntimeError as error:
                assert "not imported torch" in str(error), error
            else:
                raise AssertionError("attached to nothing")
        _core.torch.forget_functions()
        assert _core.torch.living_modules() == []
        assert "torch" not in sys.modules
        """
    )


def test_torch_is_found_when_it_comes_after_a_first_question():
    pytest.importorskip("torch")
    run_python(
        """
        from sonde import _core, _testing

        assert _core.torch.living_modules() == []
        assert _testing.read_tensor(1)["readable"] == "unknown"
        import torch

        model = torch.nn.Linear(2, 3)
        assert [type(each) for each in _core.torch.living_modules()] == [torch.nn.Linear]
        assert _testing.read_tensor(model.weight)["readable"] == "yes"
        """
    )


def test_a_module_that_half_looks_like_torch_is_not_torch():
    run_python(
        """
        import sys, types
        from sonde import _core, _testing

        sys.modules["torch"] = types.ModuleType("torch")
        assert _core.torch.living_modules() == []
        assert _testing.read_tensor(memoryview(b"abc"))["readable"] == "yes"
        try:
            _core.torch.find_functions()
        except AttributeError as error:
            assert "is_grad_enabled" in str(error), error
        else:
            raise AssertionError("attached to an empty module")
        """
    )


def test_a_level_of_lines_that_does_not_exist_is_refused():
    options = {
        "output_dir": None,
        "spool": False,
        "flush_interval": 1.0,
        "spool_max_bytes": 1 << 20,
        "trace_max_spans": 1,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "on_demand": False,
        "attrs": {},
        "lines": [("stdout", "chapter", None, print)],
    }
    with pytest.raises(ValueError, match="knows no level chapter"):
        _core.session.start(options)
