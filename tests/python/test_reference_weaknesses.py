"""Known weaknesses of the reference SDK: each test shows that Sonde does not have one of them.

Weaknesses that lose data or record it wrongly are in test_reference_weaknesses_data.py. Those of
hooks and snapshots are tested where these parts are tested, and `make bench` measures overhead.
"""

import gc
import os
import signal
import time
import warnings
from pathlib import Path

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from spool_files import Spool


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- crash and hang --------------------------------------------------------------------------------


def test_signal_during_a_flush_does_not_deadlock(tmp_path):
    run_python(
        """
        import os, signal, sys, threading, time
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=0.001)
        def poke():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGTERM)
        def handler(*_):
            ci.flush()
            ci.shutdown()
            sys.exit(0)
        signal.signal(signal.SIGTERM, handler)
        threading.Thread(target=poke).start()
        while True:
            with ci.scope("x"):
                ci.flush()
        """,
        tmp_path / "out",
        timeout=20,
    )
    assert Spool(tmp_path / "out/spool").one("cirron.session")


@pytest.mark.parametrize("output", ["none", "spool", "log"])
def test_unusable_directory_does_not_raise(tmp_path, output):
    (tmp_path / "taken").write_text("a file")
    handle = ci.profile(path=tmp_path / "taken", output=output)
    assert handle.enabled
    ci.shutdown()
    assert ci.profile(path=tmp_path / "free").enabled


def test_forked_child_has_nothing_of_its_parent(tmp_path):
    run_python(
        """
        import os, signal, sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("parent's"):
            pass
        pid = os.fork()
        if pid == 0:
            with ci.scope("child's") as span:
                assert span.pid == os.getpid()
            assert ci.trace(format="dict")["span_count"] == 1
            os.kill(os.getpid(), signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
        """,
        tmp_path / "out",
    )
    spool = Spool(tmp_path / "out/spool")
    assert sorted(spool.names()) == ["cirron.session", "parent's"]


def test_warnings_as_errors_do_not_reach_the_program(tmp_path):
    done = run_python(
        """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        scopes = [ci.scope("x") for _ in range(100)]
        assert [scope.__enter__() for scope in scopes].count(None) == 36
        for _ in range(200_000):
            ci.mark("m", 1)
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
        ci.profile()
        ci.flush()
        ci.trace(format="json")
        """,
        tmp_path / "out",
        flags=["-W", "error", "-X", "dev"],
    )
    assert "Traceback" not in done.stderr, done.stderr


def test_handlers_go_with_the_session(tmp_path):
    run_python(
        """
        import signal, sys
        import cirron as ci
        def caught():  # of the 31 classic signals; glibc uses others for threads
            fields = dict(line.split(":") for line in open("/proc/self/status"))
            return int(fields["SigCgt"], 16) & 0x7FFFFFFF
        for _ in range(2):
            before = caught()
            ci.profile(path=sys.argv[1])
            ci.shutdown()
            assert caught() == before
        """,
        tmp_path / "out",
    )


def test_handler_of_c_code_keeps_working(tmp_path):
    """faulthandler installs its handler in C, where Python's signal module does not see it."""
    code = """
        import faulthandler, signal, sys
        import cirron as ci
        faulthandler.register(signal.SIGTERM, chain=False)
        ci.profile(path=sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        assert ci.health()["enabled"]
    """
    with RunningPython(code, tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        time.sleep(0.2)
        status, _, errors = child.finish("go\n")
    assert status == 0, errors
    assert "most recent call first" in errors


def test_neither_import_nor_profile_brings_a_framework_or_dotenv(workdir):
    (workdir / ".env").write_text("FROM_DOTENV=1\n")
    run_python(
        """
        import os, sys
        import cirron as ci
        ci.profile(frameworks=["torch", "tensorflow", "transformers"])
        ci.shutdown()
        ci.profile()
        loaded = {"torch", "tensorflow", "transformers", "keras", "numpy"} & set(sys.modules)
        assert not loaded, loaded
        assert "FROM_DOTENV" not in os.environ
        """
    )


# -- memory ----------------------------------------------------------------------------------------


def spin(count):
    for number in range(count):
        with ci.scope("x", index=number):
            ci.mark("m", number)


def grows(count):
    spin(count)
    gc.collect()
    before = resident_bytes()
    spin(count)
    gc.collect()
    return resident_bytes() - before


@pytest.mark.parametrize("state", ["before profile()", "disabled", "after shutdown()"])
def test_memory_is_bounded_when_nothing_drains(state):
    if state == "disabled":
        ci.profile(enabled=False)
    elif state == "after shutdown()":
        ci.profile(output="none")
        ci.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grows(400_000) < (1_000_000 if state == "disabled" else 60_000_000)


def test_trace_memory_is_compact():
    done = run_python(
        """
        import gc, os
        import cirron as ci
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        ci.profile(output="none", flush_interval=3600)
        ci.flush()
        gc.collect()
        before = resident()
        for number in range(100_000):
            with ci.scope("x", index=number):
                ci.mark("m", 0.5)
            if number % 2000 == 0:
                ci.flush()
        ci.flush()
        gc.collect()
        print(resident() - before)
        assert ci.trace(format="dict", name="x", last=1)["span_count"] == 1
        """
    )
    assert int(done.stdout) < 25_000_000


def test_marks_on_a_span_that_never_closes_are_bounded(memory):
    def marks(count):
        for number in range(count):
            ci.mark("m", number)
            if number % 5000 == 0:
                ci.flush()

    with ci.scope("for ever"):
        marks(200_000)
        gc.collect()
        before = resident_bytes()
        marks(400_000)
        gc.collect()
        assert resident_bytes() - before < 16_000_000


# -- formatting and API ----------------------------------------------------------------------------


def test_small_values_are_shown(memory, capsys):
    with ci.scope("x"):
        ci.mark("lr", 1e-5)
        ci.mark("loss", 0.5234)
    ci.trace(name="x")
    assert "{lr=1e-05, loss=0.5234}" in capsys.readouterr().out


def test_empty_data_frame_has_columns(memory):
    pytest.importorskip("pandas")
    assert "wall_us" in ci.trace(format="df", last=0).columns


def test_scalars_of_numpy_and_torch_are_marks(memory):
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    with ci.scope("x"):
        ci.mark("a", np.float32(0.5))
        ci.mark("b", np.int64(3))
        ci.mark("c", torch.tensor(1.5))
        ci.mark("d", np.bool_(True))
    (node,) = ci.trace(format="dict", name="x")["roots"]
    assert [mark["value"] for mark in node["marks"]] == [0.5, 3, 1.5, True]


def test_scope_opens_when_entered(memory):
    scope = ci.scope("x")
    assert ci.trace(format="dict", name="x")["span_count"] == 0
    for count in (1, 2):
        with scope:
            pass
        assert ci.trace(format="dict", name="x")["span_count"] == count


def test_loops_keep_their_length(memory):
    assert len(ci.epochs(range(20))) == 20
    assert len(ci.batches([1, 2, 3])) == 3


def test_flush_mode_tells_that_the_disk_fails(tmp_path):
    (tmp_path / "taken").write_text("a file")
    ci.profile(path=tmp_path / "taken", flush_interval=3600)
    with ci.scope("x"):
        pass
    ci.flush()
    assert ci.health()["flush_mode"] == "degraded"


def test_open_spans_and_ranks_can_be_read(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    ci.profile(output="none")
    with ci.scope("open") as span:
        (node,) = ci.trace(format="dict", name="open")["roots"]
        assert node["end_ns"] is None
        assert span.rank == 3
