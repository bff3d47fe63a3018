"""The names, signatures and defaults of `import cirron`, and what importing it costs."""

import inspect
import re
import subprocess
import sys
from importlib import resources
from importlib.metadata import version
from pathlib import Path

import cirron as ci
import pytest
import sonde
from child_process import run_python
from sonde import _core

STUBS = Path(sonde.__file__).with_name("_core")

EXPORTED = ["Cirron", "CirronDependencyError", "CirronError", "CirronSecretNotFound",
            "CirronYamlError", "Profiler", "batches", "config", "epochs", "flush", "get_default",
            "health", "mark", "profile", "scope", "shutdown", "trace", "watch", "wrap"]  # fmt: skip

PROFILE = {
    "config": None,
    "frameworks": None,
    "snapshots": None,
    "sample_rate": None,
    "flush_interval": None,
    "enabled": True,
    "path": None,
    "output": None,
}
SETTINGS = [
    "api_key",
    "api_endpoint",
    "workspace_id",
    "output_dir",
    "snapshots",
    "sample_rate",
    "flush_interval",
    "spool_max_bytes",
    "ingest_path",
    "load_warn_bytes",
    "load_max_bytes",
    "output",
    "trace_buffer_max_spans",
]


def parameters(function):
    return dict(inspect.signature(function).parameters)


def defaults(function):
    return {name: parameter.default for name, parameter in parameters(function).items()}


def test_exported_names():
    assert sorted(ci.__all__) == EXPORTED
    for name in EXPORTED:
        assert hasattr(ci, name)


def test_star_import_takes_exactly_the_exported_names():
    namespace = {}
    exec("from cirron import *", namespace)
    assert sorted(set(namespace) - {"__builtins__"}) == EXPORTED


def test_profile_signature():
    assert defaults(ci.profile) == PROFILE
    kinds = {parameter.kind for parameter in parameters(ci.profile).values()}
    assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_cirron_profile_takes_all_but_config_by_keyword():
    found = parameters(ci.Cirron.profile)
    found.pop("self")
    assert {name: parameter.default for name, parameter in found.items()} == PROFILE
    assert found.pop("config").kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {parameter.kind for parameter in found.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_cirron_constructor_signature():
    found = defaults(ci.Cirron)
    assert list(found) == SETTINGS
    assert set(found.values()) == {None}


def test_trace_signature():
    for function in (ci.trace, ci.Cirron().trace, ci.get_default().trace):
        assert defaults(function) == {
            "format": "tree",
            "name": None,
            "last": None,
            "summary": False,
        }
    assert defaults(ci.Profiler.trace) == {
        "self": inspect.Parameter.empty,
        "format": "tree",
        "name": None,
        "last": None,
        "summary": False,
    }


@pytest.mark.parametrize("name", ["flush", "health", "shutdown", "get_default"])
def test_functions_without_parameters(name):
    assert defaults(getattr(ci, name)) == {}


def test_wrap_takes_an_estimator_and_nothing_else():
    for function in (ci.wrap, ci.Cirron.wrap, ci.get_default().wrap):
        assert defaults(function) == {"estimator": inspect.Parameter.empty}


@pytest.mark.parametrize("name", ["scope", "mark", "epochs", "batches"])
def test_recording_calls_are_the_engine_itself(name):
    assert getattr(ci, name) is getattr(_core, name)
    assert getattr(ci.Cirron, name) is getattr(_core, name)


def test_scope_takes_name_and_index_by_position_and_keyword(memory):
    with ci.scope("a", 3) as by_position, ci.scope(name="b", index=4) as by_keyword:
        assert (by_position.name, by_position.index) == ("a", 3)
        assert (by_keyword.name, by_keyword.index) == ("b", 4)


def test_mark_takes_kind_by_keyword_only(memory):
    with pytest.raises(TypeError):
        ci.mark("loss", 0.5, "summary")


def test_error_classes():
    assert issubclass(ci.CirronError, Exception)
    assert issubclass(ci.CirronSecretNotFound, ci.CirronError)
    assert issubclass(ci.CirronDependencyError, ci.CirronError)


def test_version_is_that_of_the_distribution():
    assert ci.__version__ == sonde.__version__ == version("sonde")


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ci.no_such_name


@pytest.mark.parametrize("package", ["sonde", "cirron"])
def test_packages_are_typed(package):
    assert resources.files(package).joinpath("py.typed").is_file()


def test_get_default_is_one_instance():
    assert ci.get_default() is ci.get_default()
    assert isinstance(ci.get_default(), ci.Cirron)


def test_methods_of_an_instance_record_into_the_one_session(memory):
    instance = ci.Cirron()
    with instance.scope("outer"):
        instance.mark("loss", 1)
        for _ in instance.epochs(range(2)):
            for _ in instance.batches(range(2)):
                pass
    tree = instance.trace(format="dict", name="outer")
    assert tree == ci.trace(format="dict", name="outer")
    assert tree["span_count"] == 1 + 2 + 4


def test_import_brings_nothing_heavy():  # what it costs is a row of make bench
    found = run_python(
        """
        import sys
        before = set(sys.modules)
        import cirron
        print(*(set(sys.modules) - before))
        """
    )
    modules = set(found.stdout.split())
    assert not modules & {"logging", "typing", "asyncio", "threading", "tomllib", "json", "pathlib",
                          "importlib.metadata", "dataclasses", "inspect", "numpy"}  # fmt: skip


def test_import_has_no_side_effects(workdir):
    (workdir / ".env").write_text("FROM_DOTENV=1\n")
    run_python(
        """
        import os, signal, threading
        def state():
            return dict(os.environ), [signal.getsignal(number) for number in signal.Signals]
        before = state()
        import cirron
        assert state() == before
        assert threading.active_count() == 1
        assert len(os.listdir("/proc/self/task")) == 1
        """
    )
    assert [entry.name for entry in workdir.iterdir()] == [".env"]


def test_docstrings_are_there():
    for name in EXPORTED:
        value = getattr(ci, name)
        if callable(value):
            assert inspect.getdoc(value), name
    for _, function in inspect.getmembers(ci.Profiler, inspect.isfunction):
        if not function.__name__.startswith("_"):
            assert inspect.getdoc(function), function.__name__


def test_stub_names_what_the_engine_has():
    stubs = {file.stem: file.read_text() for file in STUBS.glob("*.pyi")}
    declared = {
        group: set(re.findall(r"^(?:def |class |(?=[A-Z_]+:))(\w+)", stub, re.MULTILINE))
        for group, stub in stubs.items()
    }
    declared["__init__"] |= stubs.keys() - {"__init__"}
    for group, names in declared.items():
        module = _core if group == "__init__" else getattr(_core, group)
        assert names == {name for name in dir(module) if not name.startswith("_")}, group


def test_face_types_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import cirron as ci\n"
        "handle: ci.Profiler = ci.profile(output=['spool'], config={'a': 1})\n"
        "for epoch in ci.epochs(range(3)):\n"
        "    number: int = epoch\n"
        "    with ci.scope('x', index=1, variant='y') as span:\n"
        "        if span is not None:\n"
        "            span.attrs['k'] = 1\n"
        "    ci.mark('loss', 0.5, kind='summary', unit='nats')\n"
        "flag: object = ci.config.get('a')\n"
        "version: str = ci.__version__\n"
        "class Estimator:\n"
        "    def fit(self) -> None: ...\n"
        "wrapped: Estimator = ci.wrap(Estimator())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
        capture_output=True,
        text=True,
        timeout=100,
        env={"MYPYPATH": str(Path(ci.__file__).parent.parent), "PATH": ""},
    )
    if "No module named mypy" in done.stderr:
        pytest.skip("mypy is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
