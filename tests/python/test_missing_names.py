"""What is missing of the Cirron SDK is reported: names, a cirron.yaml, flags like our options."""

import copy
import inspect
import logging
import pickle

import cirron as ci
import pytest
from child_process import run_python
from cirron import flags
from cirron.face import FACE

NAMES = ["CirronYaml", "ProfilingConfig", "ServingConfig", "deps", "env", "find_cirron_yaml",
         "inference", "load", "load_cirron_yaml", "map", "secret"]  # fmt: skip
METHODS = ["deps", "env", "inference", "load", "secret"]


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "cirron.profiler"]


# -- names --


@pytest.mark.parametrize("name", NAMES)
def test_name_of_the_sdk_says_that_it_is_not_here(name):
    with pytest.raises(AttributeError, match=rf"'{name}': it is part of the Cirron SDK.*instead"):
        getattr(ci, name)
    assert not hasattr(ci, name)
    assert name not in dir(ci)


@pytest.mark.parametrize("name", NAMES)
def test_importing_it_says_the_same(name):
    with pytest.raises(ImportError, match=rf"'{name}': it is part of the Cirron SDK"):
        exec(f"from cirron import {name}")


@pytest.mark.parametrize("name", METHODS)
def test_method_of_an_instance_says_the_same(name):
    for instance in (ci.Cirron(), ci.get_default()):
        with pytest.raises(AttributeError, match=rf"'Cirron' object has no '{name}': it is part"):
            getattr(instance, name)


def test_other_names_are_plain_errors():
    with pytest.raises(AttributeError, match=r"module 'cirron' has no attribute 'profil'$"):
        _ = ci.profil
    with pytest.raises(ImportError, match="cannot import name 'profil'"):
        exec("from cirron import profil")
    with pytest.raises(AttributeError, match=r"'Cirron' object has no attribute 'map'$"):
        _ = ci.Cirron().map


def test_instance_can_still_be_copied():
    instance = ci.Cirron(output="none", flush_interval=3.0)
    for twin in (
        copy.copy(instance),
        copy.deepcopy(instance),
        pickle.loads(pickle.dumps(instance)),
    ):
        assert vars(twin) == vars(instance)


# -- cirron.yaml --

PROFILE_TWICE = """
import logging
logging.basicConfig(format="%(name)s %(message)s")
import cirron as ci
for _ in range(2):
    ci.profile(output="none", frameworks=[])
    ci.shutdown()
"""


@pytest.mark.parametrize("name", ["cirron.yaml", "cirron.yml", "cirron.json"])
@pytest.mark.parametrize("above", [False, True])
def test_settings_file_that_is_not_read_is_reported_once(workdir, monkeypatch, name, above):
    (workdir / name).write_text("profiling:\n  snapshots: full\n")
    if above:
        (workdir / "deep" / "deeper").mkdir(parents=True)
        monkeypatch.chdir(workdir / "deep" / "deeper")
    lines = run_python(PROFILE_TWICE).stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"cirron.profiler [cirron] {workdir / name} is not read")
    assert "profile()" in lines[0]


def test_no_settings_file_no_words(workdir):
    (workdir / "cirron.yaml").mkdir()
    assert run_python(PROFILE_TWICE).stderr == ""


def test_switched_off_it_says_nothing(workdir):
    (workdir / "cirron.yaml").write_text("name: x\n")
    code = "import cirron as ci; ci.profile(config={'snapshots': 'full'}, enabled=False)"
    assert run_python(code).stderr == ""


# -- flags --


class Unprintable:
    def __repr__(self):
        raise RuntimeError("of the program")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"snapshots": "full"}, "write profile(snapshots='full')"),
        ({"snapshots": 3}, '{"snapshots": {"threads": N}}'),
        ({"output": "stdout"}, "write profile(output='stdout')"),
        ({"path": "x"}, "write profile(path='x')"),
        ({"frameworks": ["torch"]}, "write profile(frameworks=...)"),
        ({"flush_interval": 5}, "write profile(flush_interval=5)"),
        ({"sample_rate": 0.5}, "write profile(sample_rate=0.5)"),
        ({"enabled": False}, "write profile(enabled=False)"),
        ({"spool_max_bytes": 7}, "write Cirron(spool_max_bytes=7).profile()"),
        ({"torch": True}, "reserved for the torch hook; call your flag something else"),
        ({"torch": "2.4"}, '{"torch": {"epoch_steps": N}}'),
        ({"tensorflow": 1}, "reserved for the tensorflow hook; call your flag something else"),
        ({"keras": 1}, "reserved for the keras hook; call your flag something else"),
        ({"transformers": 1}, "reserved for the transformers hook; call your flag something else"),
        ({"lightning": 1}, "reserved for the lightning hook; call your flag something else"),
        ({"jax": 1}, "reserved for the jax hook; call your flag something else"),
        ({"torch": {"epoch_step": 7}}, '{"torch": {"epoch_steps": N}} where N is 1 or more'),
        ({"torch": {"epoch_steps": "x"}}, "{'epoch_steps': 'x'}} has no effect"),
        ({"torch": {"epoch_steps": 0}}, "{'epoch_steps': 0}} has no effect"),
        ({"snapshots": {"mode": "full"}}, '{"snapshots": {"threads": N}} where N is 1 or more'),
        ({"snapshots": {"threads": "many"}}, "{'threads': 'many'}} has no effect"),
        ({"jax": {"steps": 3}}, "jax has no options"),
        ({"pytorch": {"epoch_steps": 3}}, 'write {"torch": {"epoch_steps": N}} where N is 1'),
        ({"keras": {"steps": 3}}, "keras has no options"),
        ({"output_dir": "x"}, "write Cirron(output_dir='x').profile()"),
        ({"trace_buffer_max_spans": 7}, "write Cirron(trace_buffer_max_spans=7).profile()"),
        ({"torch": {"model": Unprintable()}}, "{'model': ...}} has no effect"),
    ],
)
def test_flag_with_the_name_of_an_option_is_reported_once(caplog, flags, said):
    with caplog.at_level(logging.INFO):
        ci.profile(config=flags, output="none", frameworks=[])
    (text,) = warnings_of(caplog)
    assert text.startswith(f"[cirron] config={{'{next(iter(flags))}': ")
    assert said in text
    assert dict(ci.config) == flags


def test_the_names_that_are_no_flags_are_those_of_the_signatures():
    assert flags.arguments(FACE) == inspect.signature(ci.profile).parameters.keys()
    assert inspect.signature(ci.Cirron).parameters.keys() >= flags.SETTINGS


def test_each_flag_is_reported(caplog):
    ci.profile(config={"output": "log", "torch": 1, "mine": 2}, output="none", frameworks=[])
    assert len(warnings_of(caplog)) == 2


def test_other_flags_and_tables_are_not_reported(caplog):
    mine = {"torch": {"epoch_steps": 5}, "snapshots": {"threads": 1}, "path": None, 3: 4}
    ci.profile(config=mine, output="none", frameworks=[])
    assert warnings_of(caplog) == []
    assert dict(ci.config) == mine


def test_long_flag_is_cut_and_an_object_is_not_asked_for_its_repr(caplog):
    class Silent:
        def __repr__(self):
            raise AssertionError("must not be asked")

    ci.profile(config={"path": "x" * 1000, "output": Silent()}, output="none", frameworks=[])
    texts = warnings_of(caplog)
    assert len(texts) == 2
    assert max(map(len, texts)) < 300
