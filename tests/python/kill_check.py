"""A run that is killed, and what must be left of it. Shared with the long test in tests/nightly."""

import signal
import time

import cirron as ci
from child_process import RunningPython
from spool_files import Spool

BUSY = """
    import sys, threading, time
    import cirron as ci
    ci.profile(path=sys.argv[1], flush_interval=0.02)
    def work():
        number = 0
        while True:
            with ci.scope("threaded", index=number):
                ci.mark("t", number)
            number += 1
            time.sleep(0.0001)
    threading.Thread(target=work, daemon=True).start()
    epoch = ci.scope("epoch", index=0, run="killed")
    epoch.__enter__()
    print("ready", flush=True)
    number = 0
    while True:
        with ci.scope("step", index=number):
            with ci.scope("inner", index=number):
                ci.mark("n", number)
        number += 1
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
"""

# What it has recorded lies in the first blocks of its journal.
CALM = """
    import sys, time
    import cirron as ci
    ci.profile(path=sys.argv[1], flush_interval=3600)
    epoch = ci.scope("epoch", index=0, run="killed")
    epoch.__enter__()
    for number in range(100):
        with ci.scope("step", index=number):
            ci.mark("n", number)
    print("ready", flush=True)
    print("100", flush=True)
    time.sleep(3600)
"""


def kill_after(delay, directory, code=BUSY):
    """Runs the program and kills it. Returns the number of steps that it reported as closed."""
    with RunningPython(code, directory) as child:
        child.wait_for()
        time.sleep(delay)
        child.signal(signal.SIGKILL)
        status, output, _ = child.finish(timeout=20)
    assert status == -signal.SIGKILL
    said = output.rpartition("\n")[0].splitlines()
    return int(said[-1]) if said else 0


def check_killed_run(directory, steps):
    """Recovers, then looks: every closed span once, every open scope once, nothing else.

    Returns how many journals were left to recover.
    """
    ci.profile(path=directory, flush_interval=3600)
    ci.flush()
    health = ci.health()
    ci.shutdown()
    spool = Spool(directory / "spool")
    sessions = spool.named("cirron.session")
    assert len(sessions) == 2
    (epoch,) = spool.named("epoch")
    assert epoch["attrs"]["run"] == "killed"
    assert epoch["attrs"]["sonde.closed_by"]
    assert spool.path(epoch) == ["cirron.session", "epoch"]
    closed = [s for s in spool.named("step") if "sonde.closed_by" not in s["attrs"]]
    indices = sorted(span["index"] for span in closed)
    assert indices == list(range(len(indices)))
    assert len(indices) >= steps
    threaded = sorted(span["index"] for span in spool.named("threaded"))
    assert threaded == list(range(len(threaded)))
    inner = {span["index"]: span for span in spool.named("inner")}
    for span in closed:
        assert inner[span["index"]]["parent_id"] == span["id"]
    marks = sorted(mark["value"] for mark in spool.marks if mark["name"] == "n")
    assert marks == list(range(len(marks)))
    assert len(marks) >= steps
    return health["recovered_journals"]
