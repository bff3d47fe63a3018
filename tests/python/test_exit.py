"""Ends of a process: return, exception, sys.exit, SIGTERM, SIGINT, handlers of the program."""

import os
import signal
import textwrap
import threading
import time

import pytest
from child_process import RunningPython, run_python
from spool_files import Spool

WORK = """
    import os, signal, sys, threading, time
    import cirron as ci
    {before}
    ci.profile(flush_interval=3600, path=sys.argv[1])
    epochs = ci.epochs(range(2))
    next(epochs)
    with ci.scope("closed"):
        ci.mark("m", 1)
    step = ci.scope("open step")
    step.__enter__()
    {then}
"""

WAIT = """
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def program(then="", before=""):
    return textwrap.dedent(WORK).format(then=textwrap.dedent(then), before=before)


def check_complete(directory):
    """Everything is in the spool: closed, open, the session; and no journal is left."""
    spool = Spool(directory / "spool")
    assert sorted(spool.names()) == ["cirron.session", "closed", "epoch", "open step"]
    assert spool.path(spool.one("open step")) == ["cirron.session", "epoch", "open step"]
    assert spool.mark("m")["span_id"] == spool.one("closed")["id"]
    live = directory / "live"
    assert not live.exists() or list(live.iterdir()) == []
    return spool


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError('uncaught')", 1),
        ("ci.shutdown()", 0),
        ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
    ids=["return", "sys.exit", "exception", "shutdown", "KeyboardInterrupt"],
)
def test_orderly_exit_writes_everything(tmp_path, then, status):
    done = run_python(program(then), tmp_path / "out", check=False)
    assert done.returncode == status, done.stderr
    check_complete(tmp_path / "out")


def test_exit_while_other_threads_record(tmp_path):
    run_python(
        program("threading.Thread(target=lambda: [None for _ in ci.epochs(range(1000))]).start()"),
        tmp_path / "out",
    )
    assert len(Spool(tmp_path / "out/spool").named("epoch")) == 1001


def test_sigterm_writes_everything_and_kills(tmp_path):
    with RunningPython(program(WAIT), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, _, errors = child.finish(timeout=20)
    assert status == -signal.SIGTERM, errors
    check_complete(tmp_path / "out")


def test_sigterm_kills_a_process_that_is_stuck_in_c_code(tmp_path):
    """A collective that hangs or a kernel that never returns may hold the GIL for ever."""
    then = 'print("ready", flush=True)\nsum(range(10**12))'
    with RunningPython(program(then), tmp_path / "out") as child:
        child.wait_for()
        time.sleep(0.1)
        child.signal(signal.SIGTERM)
        status, _, errors = child.finish(timeout=20)
    assert status == -signal.SIGTERM, errors
    check_complete(tmp_path / "out")


def test_sigterm_with_a_log_sink_while_the_gil_is_held(tmp_path):
    code = """
        import sys, time
        import cirron as ci
        ci.profile(flush_interval=3600, path=sys.argv[1], output=["spool", "log", "stdout"])
        with ci.scope("closed"):
            pass
        print("ready", flush=True)
        sum(range(10**12))
    """
    with RunningPython(code, tmp_path / "out") as child:
        child.wait_for()
        time.sleep(0.1)
        child.signal(signal.SIGTERM)
        status, _, errors = child.finish(timeout=40)
    assert status == -signal.SIGTERM, errors
    assert Spool(tmp_path / "out/spool").one("closed")


def test_own_sigterm_handler_from_before_profile_works(tmp_path):
    before = "signal.signal(signal.SIGTERM, lambda *_: (print('mine', flush=True), sys.exit(7)))"
    with RunningPython(program(WAIT, before), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, output, errors = child.finish(timeout=20)
    assert (status, "mine" in output) == (7, True), errors
    check_complete(tmp_path / "out")


def test_own_sigterm_handler_from_after_profile_works(tmp_path):
    then = "signal.signal(signal.SIGTERM, lambda *_: (print('mine', flush=True), sys.exit(7)))\n"
    with RunningPython(program(then + textwrap.dedent(WAIT)), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, output, errors = child.finish(timeout=20)
    assert (status, "mine" in output) == (7, True), errors
    check_complete(tmp_path / "out")


def test_own_handler_that_goes_on_leaves_the_profiler_working(tmp_path):
    then = """
hits = []
signal.signal(signal.SIGTERM, lambda *_: hits.append(1))
print("ready", flush=True)
while not hits:
    time.sleep(0.01)
assert ci.health()["enabled"]
with ci.scope("after the signal"):
    pass
"""
    with RunningPython(program(then), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, _, errors = child.finish(timeout=20)
    assert status == 0, errors
    assert Spool(tmp_path / "out/spool").one("after the signal")


def test_handler_that_calls_shutdown(tmp_path):
    before = "signal.signal(signal.SIGTERM, lambda *_: (ci.shutdown(), os._exit(5)))"
    with RunningPython(program(WAIT, before), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, _, errors = child.finish(timeout=20)
    assert status == 5, errors
    check_complete(tmp_path / "out")


def test_ignored_sigterm_stays_ignored(tmp_path):
    before = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    then = """
print("ready", flush=True)
sys.stdin.readline()
assert ci.health()["enabled"]
"""
    with RunningPython(program(then, before), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        time.sleep(0.2)
        status, _, errors = child.finish("go on\n", timeout=20)
    assert status == 0, errors
    check_complete(tmp_path / "out")


def test_sigint_uncaught(tmp_path):
    with RunningPython(program(WAIT), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGINT)
        status, _, errors = child.finish(timeout=20)
    assert status == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    check_complete(tmp_path / "out")


def test_sigint_caught_leaves_the_profiler_working(tmp_path):
    then = """
for number in range(3):
    try:
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        with ci.scope("caught", index=number):
            pass
        ci.flush()
health = ci.health()
assert health["enabled"] and health["flush_mode"] == "normal", health
"""
    with RunningPython(program(then), tmp_path / "out") as child:
        for _ in range(3):
            child.wait_for()
            time.sleep(0.05)
            child.signal(signal.SIGINT)
        status, _, errors = child.finish(timeout=20)
    assert status == 0, errors
    spool = Spool(tmp_path / "out/spool")
    assert [span["index"] for span in spool.named("caught")] == [0, 1, 2]


def test_default_sigint_action_loses_nothing(tmp_path):
    """With the default action the process dies at once, and the journal keeps what it recorded."""
    before = "signal.signal(signal.SIGINT, signal.SIG_DFL)"
    with RunningPython(program(WAIT, before), tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGINT)
        status, _, errors = child.finish(timeout=20)
    assert status == -signal.SIGINT, errors
    run_python("import sys, cirron as ci; ci.profile(path=sys.argv[1])", tmp_path / "out")
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("cirron.session")) == 2
    assert spool.one("closed")
    assert spool.one("open step")


def test_signals_in_the_middle_of_flushing(tmp_path):
    """The handler must not need a lock that the interrupted code holds."""
    code = """
        import signal, sys
        import cirron as ci
        hits = 0
        def handler(*_):
            global hits
            hits += 1
            ci.flush()
            ci.health()
            with ci.scope("in the handler"):
                ci.mark("m", 1)
        signal.signal(signal.SIGUSR1, handler)
        ci.profile(flush_interval=0.001, path=sys.argv[1])
        print("ready", flush=True)
        while hits < 50:
            with ci.scope("x", a=1):
                pass
            ci.flush()
            ci.trace(format="dict", last=3)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        print("done", flush=True)
        sys.stdin.readline()
    """
    with RunningPython(code, tmp_path / "out") as child:
        child.wait_for()
        stop = threading.Event()

        def send():
            while not stop.wait(0.002):
                child.signal(signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        child.wait_for("done")
        stop.set()
        sender.join()
        status, _, errors = child.finish("go\n", timeout=30)
    assert status == 0, errors
    assert len(Spool(tmp_path / "out/spool").named("in the handler")) >= 50


def test_sigterm_in_the_middle_of_everything(tmp_path):
    code = """
        import sys, threading, time
        import cirron as ci
        ci.profile(flush_interval=0.001, path=sys.argv[1])
        def work():
            while True:
                with ci.scope("x", a=1):
                    ci.mark("m", 1)
                time.sleep(0.0001)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        print("ready", flush=True)
        while True:
            ci.flush()
            ci.trace(format="dict", last=3)
    """
    for attempt in range(5):
        with RunningPython(code, tmp_path / str(attempt)) as child:
            child.wait_for()
            time.sleep(0.02 * attempt)
            child.signal(signal.SIGTERM)
            status, _, errors = child.finish(timeout=30)
        assert status == -signal.SIGTERM, errors
        assert Spool(tmp_path / str(attempt) / "spool").one("cirron.session")


def test_handlers_are_as_before_after_shutdown(tmp_path):
    run_python(
        """
        import signal, sys
        import cirron as ci
        def disposition():  # of the 31 classic signals; glibc uses others for threads
            fields = dict(line.split(":") for line in open("/proc/self/status"))
            return [int(fields[name], 16) & 0x7FFFFFFF for name in ("SigCgt", "SigIgn")]
        before = disposition()
        ci.profile(path=sys.argv[1])
        ci.shutdown()
        assert disposition() == before, (disposition(), before)
        """,
        tmp_path / "out",
    )


def test_python_sees_no_handler_of_ours(tmp_path):
    run_python(
        """
        import signal, sys
        import cirron as ci
        ci.profile(path=sys.argv[1])
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        """,
        tmp_path / "out",
    )


def test_profile_in_a_thread_works(tmp_path):
    run_python(
        """
        import sys, threading
        import cirron as ci
        thread = threading.Thread(target=ci.profile, kwargs={"path": sys.argv[1]})
        thread.start()
        thread.join()
        with ci.scope("x"):
            pass
        """,
        tmp_path / "out",
    )
    assert Spool(tmp_path / "out/spool").one("x")


def test_os_exit_leaves_a_journal_that_the_next_run_recovers(tmp_path):
    run_python(program("os._exit(0)"), tmp_path / "out")
    assert list((tmp_path / "out/live").iterdir())
    run_python("import sys, cirron as ci; ci.profile(path=sys.argv[1])", tmp_path / "out")
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("cirron.session")) == 2
    assert spool.one("closed")
    assert spool.one("open step")


def test_atexit_of_the_host_may_still_record(tmp_path):
    code = """
        import atexit, sys
        import cirron as ci
        @atexit.register
        def last():
            with ci.scope("too late"):
                ci.mark("m", 1)
            ci.flush()
            assert not ci.health()["enabled"]
        ci.profile(path=sys.argv[1])
    """
    done = run_python(code, tmp_path / "out")
    assert done.stderr == ""
    assert Spool(tmp_path / "out/spool").names() == ["cirron.session"]


def test_environment_is_left_alone(tmp_path):
    before = dict(os.environ)
    run_python(program(), tmp_path / "out")
    assert dict(os.environ) == before
