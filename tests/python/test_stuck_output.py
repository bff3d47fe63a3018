"""Output that nobody takes: a log handler that never returns, a pipe that is not read.

The spool goes on, and the run ends: neither waits for what shows it.
"""

import json
import signal
import subprocess
import sys
import time

import pytest
from child_process import RunningPython, run_python
from sonde_command import sonde

# A stuck output is waited for twice at most: two seconds for the sink, two for the messages.
LIMIT_S = 6

BLOCKS = """
import logging, os, signal, sys, threading, time
import cirron as ci

class Blocks(logging.Handler):
    def emit(self, record):
        threading.Event().wait()

logging.getLogger("cirron").addHandler(Blocks())
logging.getLogger("cirron").setLevel("INFO")
ci.profile(path=sys.argv[1], frameworks=[], flush_interval=0.01, output=["spool", "log:all"])
"""


def spans(run):
    return sum(len(json.loads(file.read_text())["spans"]) for file in run.glob("spool/*.json"))


def test_a_log_handler_that_never_returns_stops_neither_the_spool_nor_the_end(tmp_path):
    code = (
        BLOCKS
        + """
until = time.monotonic() + 60
while ci.health()["flushed_batches"] < 1100 and time.monotonic() < until:
    with ci.scope("x"):
        pass
    time.sleep(0.001)
print("ready")
sys.stdin.readline()
start = time.monotonic()
ci.shutdown()
print(time.monotonic() - start)
sys.stdout.flush()
os._exit(0)  # logging itself waits for its handlers at the end of Python
"""
    )
    with RunningPython(code, tmp_path) as program:
        program.wait_for()
        _, output, errors = program.finish("go\n", timeout=60)
    assert float(output) < LIMIT_S, errors
    assert len(list(tmp_path.glob("spool/*.json"))) >= 1100
    assert not list(tmp_path.glob("live/*"))


def test_a_signal_ends_the_run_all_the_same(tmp_path):
    code = (
        BLOCKS
        + """
with ci.scope("x"):
    pass
time.sleep(0.2)
print("ready")
signal.pause()
"""
    )
    with RunningPython(code, tmp_path) as program:
        program.wait_for()
        start = time.monotonic()
        program.signal(signal.SIGTERM)
        status, _, errors = program.finish(timeout=60)
        assert time.monotonic() - start < LIMIT_S, errors
    assert status == -signal.SIGTERM
    assert not list(tmp_path.glob("live/*"))
    assert spans(tmp_path) == 2
    assert "DEAD" not in sonde("autopsy", tmp_path).stdout


@pytest.mark.parametrize("ends", ["ci.shutdown()", ""])
def test_a_pipe_that_is_not_read(tmp_path, ends):
    code = f"""
import os, sys
import cirron as ci

os.set_blocking(1, True)
ci.profile(path=sys.argv[1], frameworks=[], flush_interval=0.01, output=["spool", "stdout:all"])
for i in range(20_000):
    with ci.scope("a name that fills the pipe, because it is quite long"):
        pass
{ends}
"""
    program = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        start = time.monotonic()
        assert program.wait(60) == 0
        assert time.monotonic() - start < LIMIT_S + 4
    finally:
        program.kill()
        program.communicate()
    assert spans(tmp_path) == 20_001
    assert not list(tmp_path.glob("live/*"))


def test_the_main_thread_stays_the_main_thread(tmp_path):
    """Python takes the thread that first imports threading for it; logging imports it."""
    code = """
import sys
import cirron as ci

class Errors:
    said = ""
    def write(self, text):
        self.said += text
        sys.__stderr__.write(text)
    flush = lambda self: None

sys.stderr = Errors()
ci.profile(path="run", frameworks=[], flush_interval=0.01)
with ci.scope("x"):
    pass
import os, time
for name in os.listdir("run/live"):
    os.unlink("run/live/" + name)
until = time.monotonic() + 30
while "was removed" not in sys.stderr.said and time.monotonic() < until:
    time.sleep(0.01)
ci.shutdown()
import _thread, threading
assert threading.main_thread().ident == _thread.get_ident(), threading.enumerate()
"""
    said = run_python(code, cwd=tmp_path, timeout=60)
    assert "was removed" in said.stderr, said.stderr
