"""Shared by the tests of the command `sonde`: programs to look at, and a running `sonde tail`."""

import contextlib
import signal
import subprocess
from pathlib import Path

from child_process import RunningPython
from sonde_command import sonde_path

REFERENCE = Path(__file__).parents[1] / "data" / "reference-spool"

# Scopes open on two threads, after some that closed.
CHILD = """
    import sys, threading, time
    import cirron as ci

    ci.profile(path=sys.argv[1], flush_interval=float(sys.argv[2]), frameworks=[])
    ready = threading.Event()

    def load():
        with ci.scope("loader", worker=3):
            ready.set()
            time.sleep(600)

    with ci.scope("warmup"):
        ci.mark("lr", 0.25)
    threading.Thread(target=load, daemon=True).start()
    ready.wait()
    for epoch in ci.epochs(range(2)):
        for batch in ci.batches(range(3)):
            ci.mark("loss", 0.5)
        if epoch == 1:
            with ci.scope("forward", layer="conv"):
                ci.mark("depth", 7)
                print("ready", flush=True)
                for _ in sys.stdin:
                    with ci.scope("extra"):
                        ci.mark("more", 1)
                    print("done", flush=True)
"""

# Ends normally, but what it recorded cannot be written.
WITHOUT_SPOOL = """
    import shutil, sys
    from pathlib import Path
    import cirron as ci
    ci.profile(path=sys.argv[1], flush_interval=3600, frameworks=[])
    ci.flush()
    spool = Path(sys.argv[1]) / "spool"
    shutil.rmtree(spool)
    spool.write_text("in the way")
    with ci.scope("work"):
        ci.mark("loss", 0.5)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def killed_run(directory, interval=3600):
    """A run that was killed with scopes open; returns its pid."""
    with RunningPython(CHILD, directory, interval) as run:
        run.wait_for()
        run.signal(signal.SIGKILL)
        run.process.wait()
        return run.pid


@contextlib.contextmanager
def tail_of(directory, *args):
    """`sonde tail` while it runs."""
    command = [sonde_path(), "tail", directory, "--interval", "0.02", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as tail:
        try:
            yield tail
        finally:
            tail.kill()
