"""profile(): arguments, the one session of a process, its handle, a fresh start afterwards."""

import logging
import os
import threading
from pathlib import Path
from types import MappingProxyType

import cirron as ci
import pytest
from child_process import run_python
from sonde import hooks
from spool_files import Spool

BAD_ARGUMENTS = [
    ({"output": "stream"}, ValueError, "not valid"),
    ({"output": "both"}, ValueError, "not valid"),
    ({"output": ["spool", "bogus"]}, ValueError, "not valid"),
    ({"output": ["bogus", "none"]}, ValueError, "not valid"),
    ({"output": ["spool", 3]}, ValueError, "must be strings"),
    ({"output": b"spool"}, ValueError, "must be strings"),
    ({"output": 3}, TypeError, "output"),
    ({"snapshots": "bogus"}, ValueError, "snapshots"),
    ({"snapshots": 1}, ValueError, "snapshots"),
    ({"sample_rate": -0.1}, ValueError, "sample_rate"),
    ({"sample_rate": 1.1}, ValueError, "sample_rate"),
    ({"sample_rate": float("nan")}, ValueError, "sample_rate"),
    ({"sample_rate": True}, ValueError, "sample_rate"),
    ({"sample_rate": "0.5"}, ValueError, "sample_rate"),
    ({"flush_interval": 0}, ValueError, "flush_interval"),
    ({"flush_interval": -1}, ValueError, "flush_interval"),
    ({"flush_interval": float("nan")}, ValueError, "flush_interval"),
    ({"flush_interval": True}, ValueError, "flush_interval"),
    ({"flush_interval": "1"}, ValueError, "flush_interval"),
    ({"frameworks": "torch"}, ValueError, "frameworks"),
    ({"frameworks": {"torch": 1}}, ValueError, "frameworks"),
    ({"frameworks": ["torch", 3]}, ValueError, "strings"),
    ({"config": ["flag"]}, TypeError, "config"),
    ({"config": "flag"}, TypeError, "config"),
    ({"path": 3}, TypeError, "path"),
    ({"path": "a\0b"}, ValueError, "null"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), BAD_ARGUMENTS)
def test_bad_argument_raises_and_leaves_nothing(workdir, arguments, error, text):
    with pytest.raises(error, match=text):
        ci.profile(**arguments)
    assert not ci.health()["enabled"]
    assert list(workdir.iterdir()) == []
    assert ci.profile(output="none").enabled


@pytest.mark.parametrize(
    "arguments",
    [
        {"sample_rate": 0},
        {"sample_rate": 1},
        {"sample_rate": 0.05},
        {"flush_interval": 10},
        {"flush_interval": float("inf")},
        {"flush_interval": 1e-9},
        {"snapshots": "off"},
        {"snapshots": "full"},
        {"frameworks": []},
        {"output": []},
        {"output": ("log",)},
        {"output": iter(["spool", "log"])},
        {"output": ["spool", "spool"]},
        {"output": ["none", "anything after it"]},
        {"config": {}},
        {"config": MappingProxyType({"a": 1})},
        {"path": Path("elsewhere")},
        {"path": b"elsewhere"},
        {"path": ""},
    ],
)
def test_good_argument(arguments):
    assert ci.profile(**arguments).enabled


def test_arguments_by_position():
    handle = ci.profile({"a": 1}, [], "stats", 0.5, 2.0, True, "here", "spool")
    assert handle.config["a"] == 1
    assert handle.health()["spool_dir"] == str(Path.cwd() / "here" / "spool")


def test_second_call_warns_and_returns_the_first_handle(caplog):
    first = ci.profile(output="none", config={"a": 1})
    assert ci.profile(output="bogus", config={"a": 2}) is first
    (record,) = [record for record in caplog.records if "called more than once" in record.message]
    assert (record.name, record.levelno) == ("cirron.profiler", logging.WARNING)
    assert first.config["a"] == 1


def test_concurrent_callers_share_one_session():
    handles = []
    barrier = threading.Barrier(16)

    def call():
        barrier.wait()
        handles.append(ci.profile(output="none"))

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 16
    assert len(set(map(id, handles))) == 1


def test_handle(session):
    assert isinstance(session, ci.Profiler)
    assert session.enabled is True
    assert session.cirron is ci.get_default()
    assert session.installed_hooks == hooks.detect()
    assert [handle.name for handle in session.hook_handles] == hooks.detect()
    assert session.platform_context == {}


def test_handle_is_that_of_the_instance():
    instance = ci.Cirron(output="none")
    assert instance.profile().cirron is instance


def test_instance_output_is_the_default_of_profile(workdir):
    ci.Cirron(output="none").profile()
    ci.shutdown()
    assert list(workdir.iterdir()) == []


def test_path_is_the_output_directory(workdir):
    ci.profile(path="somewhere/deep")
    with ci.scope("x"):
        pass
    ci.shutdown()
    assert Spool(workdir / "somewhere/deep/spool").one("x")
    assert [entry.name for entry in workdir.iterdir()] == ["somewhere"]


def test_path_with_a_tilde_is_in_the_home_directory(tmp_path, workdir):
    ci.profile(path="~/traces")
    ci.shutdown()
    assert Spool(tmp_path / "home/traces/spool").one("cirron.session")
    assert list(workdir.iterdir()) == []


def test_root_scope_attributes(session, spool_dir):
    ci.shutdown()
    root = Spool(spool_dir).one("cirron.session")
    assert root["parent_id"] is None
    assert root["attrs"]["pid"] == root["pid"] == os.getpid()
    assert root["attrs"]["rank"] == 0
    assert root["attrs"]["device"] in ("cpu", "cuda")
    assert root["attrs"]["framework"] == ""
    assert not {"world_size", "local_rank"} & root["attrs"].keys()


def test_a_framework_without_a_hook_gives_a_warning(caplog):
    ci.profile(frameworks=["torch", "nonsense", "torch"])
    ci.shutdown()
    texts = [record.message for record in caplog.records if record.name == "cirron.hooks"]
    assert any("nonsense" in text for text in texts)


def test_torch_is_asked_only_if_the_program_imported_it(workdir):
    run_python("""
        import sys
        import cirron as ci
        ci.profile(frameworks=["torch"])
        ci.shutdown()
        assert "torch" not in sys.modules
    """)
    assert Spool(workdir / ".cirron/spool").one("cirron.session")["attrs"]["device"] == "cpu"


def test_platform_context(monkeypatch, spool_dir, capsys):
    monkeypatch.setenv("CIRRON_RUN_ID", "run")
    monkeypatch.setenv("CIRRON_PIPELINE_ID", "pipe")
    monkeypatch.setenv("CIRRON_DEPLOYMENT_ID", "")
    handle = ci.profile()
    assert handle.platform_context == {"run_id": "run", "pipeline_id": "pipe"}
    ci.shutdown()
    attrs = Spool(spool_dir).one("cirron.session")["attrs"]
    assert attrs["cirron.run_id"] == "run"
    assert attrs["cirron.pipeline_id"] == "pipe"
    assert "cirron.deployment_id" not in attrs


# -- feature flags ---------------------------------------------------------------------------------


def test_config_holds_the_callers_own_flags():
    flags = {"use_ema": True, "nested": {"a": 1}}
    handle = ci.profile(config=flags, output="none")
    for view in (handle.config, ci.config):
        assert view.get("use_ema") is True
        assert view["nested"] == {"a": 1}
        assert view.get("missing", 7) == 7
        assert len(view) == 2
        assert dict(view) == flags
        with pytest.raises(KeyError):
            view["missing"]
        with pytest.raises(TypeError):
            view["use_ema"] = False
    flags["use_ema"] = False
    assert ci.config["use_ema"] is True


def test_config_may_hold_what_would_be_an_invalid_option():
    ci.profile(config={"snapshots": "bogus", "flush_interval": -3}, output="none")
    assert ci.config["snapshots"] == "bogus"


def test_config_is_empty_without_a_session():
    view = ci.config
    assert dict(view) == {}
    ci.profile(config={"a": 1}, output="none")
    assert dict(view) == {"a": 1}
    ci.shutdown()
    assert dict(view) == {}


def test_config_is_readable_when_profiling_is_off():
    ci.profile(config={"a": 1}, enabled=False)
    assert ci.config.get("a") == 1


# -- enabled=False ---------------------------------------------------------------------------------


def test_disabled_records_nothing(workdir):
    handle = ci.profile(enabled=False)
    assert handle.enabled is False
    before = ci.trace(format="dict")
    with ci.scope("x"):
        ci.mark("m", 1)
    for _ in ci.epochs(range(3)):
        for _ in ci.batches(range(3)):
            pass
    ci.flush()
    assert ci.trace(format="dict") == before
    assert list(workdir.iterdir()) == []


def test_disabled_loops_still_yield():
    ci.profile(enabled=False)
    assert list(ci.epochs(range(5))) == [0, 1, 2, 3, 4]
    assert list(ci.batches("abc")) == ["a", "b", "c"]


def test_disabled_is_the_session_until_shutdown(caplog):
    off = ci.profile(enabled=False)
    assert ci.profile(output="none") is off
    assert "called more than once" in caplog.text
    ci.shutdown()
    on = ci.profile(output="none")
    assert on is not off
    assert on.enabled
    with ci.scope("x"):
        pass
    assert ci.trace(format="dict", name="x")["span_count"] == 1


def test_disabled_judges_no_other_argument():
    assert not ci.profile(enabled=False, output="bogus", flush_interval=-1, config=3).enabled


def test_disabled_starts_no_thread():
    # Threads of earlier tests may end meanwhile.
    before = set(Path("/proc/self/task").iterdir())
    ci.profile(enabled=False)
    assert set(Path("/proc/self/task").iterdir()) <= before


# -- shutdown and a fresh start --------------------------------------------------------------------


def test_shutdown_is_idempotent_and_handles_outlive_it(session):
    session.shutdown()
    session.shutdown()
    ci.shutdown()
    assert session.enabled is False
    health = session.health()
    assert health["enabled"] is False
    assert health["flush_mode"] == "stopped"
    session.flush()


def test_old_handle_does_not_touch_the_new_session(session):
    session.shutdown()
    new = ci.profile(output="none")
    session.shutdown()
    session.flush()
    assert new.enabled
    assert ci.health()["enabled"]


def test_a_new_session_starts_clean():
    ci.profile(output="none", snapshots="full", sample_rate=1.0, flush_interval=5, config={"a": 1})
    with ci.scope("old"):
        ci.mark("m", 1)
    ci.shutdown()
    default = ci.get_default()
    assert (default.snapshots, default.sample_rate, default.flush_interval) == ("stats", 0.01, 1.0)
    ci.profile(output="none")
    assert dict(ci.config) == {}
    assert ci.trace(format="dict", name="old")["span_count"] == 0


def test_two_sessions_in_one_directory_write_all(spool_dir):
    for number in range(3):
        ci.profile()
        with ci.scope(f"s{number}"):
            pass
        ci.shutdown()
    spool = Spool(spool_dir)
    roots = spool.named("cirron.session")
    assert len(roots) == 3
    for number, root in enumerate(roots):
        assert spool.one(f"s{number}")["parent_id"] == root["id"]


def test_shutdown_closes_the_scopes_left_open(session, spool_dir):
    scope = ci.scope("left")
    scope.__enter__()
    session.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("left")) == ["cirron.session", "left"]
    scope.__exit__(None, None, None)


def test_shutdown_from_another_thread(session, spool_dir):
    with ci.scope("open on the main thread"):
        thread = threading.Thread(target=ci.shutdown)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
    spool = Spool(spool_dir)
    assert spool.one("open on the main thread")["parent_id"] == spool.one("cirron.session")["id"]


def test_flush_writes_before_it_returns(session, spool_dir):
    with ci.scope("x"):
        pass
    ci.flush()
    assert Spool(spool_dir).one("x")
    with ci.scope("y"):
        pass
    session.flush()
    assert Spool(spool_dir).one("y")


def test_without_a_session_all_calls_are_harmless(workdir):
    assert ci.flush() is None
    assert ci.shutdown() is None
    with ci.scope("x"):
        ci.mark("m", 1)
    assert ci.trace(format="dict")["span_count"] >= 1
    assert list(workdir.iterdir()) == []


def test_spans_from_before_profile_come_with_its_first_flush(spool_dir):
    with ci.scope("early"):
        ci.mark("m", 1)
    ci.profile()
    ci.flush()
    spool = Spool(spool_dir)
    assert spool.one("early")["parent_id"] is None
    assert spool.mark("m")["span_id"] == spool.one("early")["id"]


def test_scope_open_across_profile_belongs_to_the_session_spool(spool_dir):
    with ci.scope("straddling"):
        ci.profile()
        with ci.scope("inner"):
            pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.one("straddling")
    assert spool.one("inner")


def test_background_thread_writes_without_being_asked(spool_dir):
    ci.profile(flush_interval=0.05)
    with ci.scope("x"):
        pass
    pause = threading.Event()
    for _ in range(200):
        if spool_dir.exists() and "x" in Spool(spool_dir).names():
            break
        pause.wait(0.02)
    else:
        pytest.fail("nothing was written within 4 s")


# -- ranks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "rank", "attrs"),
    [
        ({}, 0, {}),
        ({"RANK": "3"}, 3, {}),
        ({"LOCAL_RANK": "2"}, 2, {"local_rank": 2}),
        (
            {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"},
            5,
            {"local_rank": 1, "world_size": 8},
        ),
        ({"RANK": "first"}, 0, {}),
        ({"RANK": "", "LOCAL_RANK": "4"}, 4, {"local_rank": 4}),
        ({"RANK": "99999999999999"}, 0, {}),
        ({"WORLD_SIZE": "many"}, 0, {"world_size": 0}),
    ],
)
def test_ranks_are_read_when_profile_runs(monkeypatch, spool_dir, environment, rank, attrs):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ci.profile()
    for name in environment:
        monkeypatch.delenv(name)
    with ci.scope("x"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert {span["rank"] for span in spool.spans} == {rank}
    found = spool.one("cirron.session")["attrs"]
    assert found["rank"] == rank
    assert {key: found[key] for key in found if key in ("local_rank", "world_size")} == attrs
