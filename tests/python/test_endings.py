"""How a run ended, as the trace tells afterwards."""

import json
import signal
import subprocess
import sys
import textwrap

import pytest
from ended_programs import KNOWN_ENDS, autopsy_line, ending, run, session_line
from sonde_command import sonde
from spool_files import Spool

ENDS = {
    "return": ("pass", 0, {"ended_by": "return", "exit_code": 0}, None, "returned"),
    "exit 0": ("sys.exit()", 0, {"ended_by": "return", "exit_code": 0}, None, "returned"),
    "exit 3": ("sys.exit(3)", 3, {"ended_by": "exit", "exit_code": 3}, "exit code 3", None),
    "exit with a text": (
        "raise SystemExit('no data')",
        1,
        {"ended_by": "exit", "exit_code": 1},
        "exit code 1",
        None,
    ),
    "exception": (
        "raise RuntimeError('boom')",
        1,
        {
            "ended_by": "exception",
            "exit_code": 1,
            "exception": "RuntimeError",
            "exception_message": "boom",
        },
        "ended by RuntimeError: boom",
        None,
    ),
    # The interpreter then ends itself by the signal, without an exit status.
    "Ctrl-C": (
        "os.kill(os.getpid(), signal.SIGINT); time.sleep(20)",
        -signal.SIGINT,
        {"ended_by": "exception", "exception": "KeyboardInterrupt", "exception_message": ""},
        "ended by KeyboardInterrupt",
        None,
    ),
    "SIGTERM": (
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)",
        -signal.SIGTERM,
        {"ended_by": "signal", "signal": "SIGTERM"},
        "ended by SIGTERM",
        None,
    ),
    "SIGHUP": (
        "os.kill(os.getpid(), signal.SIGHUP); time.sleep(20)",
        -signal.SIGHUP,
        {"ended_by": "signal", "signal": "SIGHUP"},
        "ended by SIGHUP",
        None,
    ),
    "shutdown()": (
        "ci.shutdown()\nsys.exit(3)",
        3,
        {"ended_by": "shutdown"},
        None,
        "ended by the program",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_ends_are_told_apart(tmp_path, end):
    then, status, expected, shown, in_autopsy = ENDS[end]
    done, spool = run(tmp_path, then)
    assert done.returncode == status, done.stderr
    assert ending(spool.one("cirron.session")) == expected
    assert session_line(tmp_path).endswith(f" [{shown}]" if shown else "ms")
    assert autopsy_line(tmp_path).endswith(f": {shown or in_autopsy}")
    (ended,) = json.loads(sonde("autopsy", "--json", tmp_path / "out").stdout)["ended"]
    assert {name: ended[name] for name in KNOWN_ENDS if ended[name] is not None} == expected
    assert ended["how"] == (shown or in_autopsy)
    assert ended["failed"] == (status != 0 and expected["ended_by"] != "shutdown")
    assert not list((tmp_path / "out").rglob("*.tmp"))


@pytest.mark.parametrize(
    ("before", "status"),
    [
        ("signal.signal(signal.SIGHUP, signal.SIG_IGN)", 0),  # as nohup does
        ("signal.signal(signal.SIGHUP, lambda *_: sys.exit(7))", 7),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(8))", -signal.SIGHUP),
    ],
)
def test_signals_that_the_program_handles_stay_its_own(tmp_path, before, status):
    done, _ = run(tmp_path, "os.kill(os.getpid(), signal.SIGHUP); time.sleep(0.3)", before)
    assert done.returncode == status, done.stderr


def test_a_terminal_that_closes_says_so_more_than_once(tmp_path):
    twice = "os.kill(os.getpid(), signal.SIGHUP); os.kill(os.getpid(), signal.SIGHUP)"
    done, spool = run(tmp_path, f"with ci.scope('work'):\n    {twice}\n    time.sleep(20)")
    assert done.returncode == -signal.SIGHUP, done.stderr
    assert ending(spool.one("cirron.session")) == {"ended_by": "signal", "signal": "SIGHUP"}
    assert spool.one("work")["end_ns"] is not None


def test_a_killed_process_has_no_end(tmp_path):
    done, _ = run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL
    sonde("autopsy", tmp_path / "out")
    session = Spool(tmp_path / "out/spool").one("cirron.session")
    assert ending(session) == {}
    assert session["attrs"]["sonde.closed_by"] == "death"
    assert session_line(tmp_path).endswith("[closed by death]")


def test_an_exit_that_skips_the_exit_status_leaves_it_unknown(tmp_path):
    """A handler registered before profile() runs after ours, when everything is written."""
    done, spool = run(tmp_path, "pass", before="import atexit; atexit.register(os._exit, 4)")
    assert done.returncode == 4, done.stderr
    assert ending(spool.one("cirron.session")) == {"ended_by": "exit"}
    assert session_line(tmp_path).endswith("[exit code not known]")
    assert list((tmp_path / "out/live").iterdir()) == []


def test_the_status_is_added_to_the_session_alone(tmp_path):
    """Its file is replaced, and everything else in it stays the same."""
    then = """
        for number in range(100):
            with ci.scope("ended_by", ended_by="exit"):
                ci.mark("ended_by", number)
        sys.exit(7)
    """
    done, spool = run(tmp_path, then)
    assert done.returncode == 7
    assert {json.dumps(ending(span)) for span in spool.named("ended_by")} == {
        '{"ended_by": "exit"}'
    }
    assert [mark["value"] for mark in spool.marks] == list(range(100))
    assert ending(spool.one("cirron.session")) == {"ended_by": "exit", "exit_code": 7}


def test_a_child_made_by_fork_does_not_speak_for_its_parent(tmp_path):
    """It inherits the handler that writes the exit status, which must do nothing in it."""
    before = """
import atexit, ctypes
def fork():
    libc = ctypes.CDLL(None)  # from Python 3.12 on, os.fork refuses while the interpreter ends
    if libc.fork() == 0:
        libc.exit(9)
    os.wait()
    os._exit(0)
atexit.register(fork)
"""
    done, spool = run(tmp_path, "pass", before)
    assert done.returncode == 0, done.stderr
    assert ending(spool.one("cirron.session")) == {"ended_by": "exit"}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, sys
        import cirron as ci
        def work(how):
            ci.profile(path=sys.argv[1])
            with ci.scope(how):
                if how == "exception":
                    raise ValueError("in the child")
                if how == "exit":
                    sys.exit(5)
                if how == "caught":  # as torch.multiprocessing.spawn does it
                    try:
                        raise ValueError("in the child")
                    except ValueError:
                        sys.exit(1)
        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[2])
            for how in ("return", "exit", "exception", "caught"):
                child = context.Process(target=work, args=(how,))
                child.start()
                child.join()
        """)
    )
    out = tmp_path / "out"
    subprocess.run(
        [sys.executable, script, out, method], check=True, capture_output=True, timeout=240
    )
    spool = Spool(out / "spool")
    ends = {
        how: ending(spool.by_id[spool.one(how)["parent_id"]])
        for how in ("return", "exit", "exception", "caught")
    }
    error = {"exception": "ValueError", "exception_message": "in the child"}
    assert ends == {
        "return": {"ended_by": "return", "exit_code": 0},
        "exit": {"ended_by": "exit", "exit_code": 5},
        "exception": {"ended_by": "exception", "exit_code": 1} | error,
        "caught": {"ended_by": "exit", "exit_code": 1} | error,
    }
