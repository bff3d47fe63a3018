"""A logging handler that ends the session, on the thread that has something to say."""

import json

import pytest
from child_process import run_python

BEGIN = """
import logging, threading, time
from pathlib import Path
import cirron as ci

class Ends(logging.Handler):
    def emit(self, record):
        spoke.set()
        time.sleep(pause)
        ci.shutdown()

spoke, pause = threading.Event(), 0
logging.getLogger("cirron").addHandler(Ends())
session = ci.profile(flush_interval=0.05, frameworks=[])
with ci.scope("x"):
    pass

def make_it_speak():
    for file in Path(".cirron/live").glob("*.journal"):
        file.unlink()
    assert spoke.wait(30)

def await_end():
    until = time.monotonic() + 30
    while session.enabled and time.monotonic() < until:
        time.sleep(0.01)
    assert not session.enabled and ci.health()["flush_mode"] == "stopped"
"""


def run(code, cwd):
    run_python(BEGIN + code, cwd=cwd, timeout=60)
    batches = [json.loads(file.read_text()) for file in cwd.glob(".cirron/spool/*.json")]
    names = sorted(span["name"] for batch in batches for span in batch["spans"])
    assert names == ["cirron.session", "x"]


@pytest.mark.parametrize("again", ["", "ci.shutdown()"])
def test_on_the_drain_thread(tmp_path, again):
    run(f"make_it_speak()\nawait_end()\n{again}", tmp_path)


def test_while_another_thread_ends_it(tmp_path):
    run("pause = 0.3\nmake_it_speak()\nci.shutdown()\nawait_end()", tmp_path)


def test_on_the_thread_that_ends_it(tmp_path):
    run(
        """
for file in Path(".cirron/live").glob("*.journal"):
    file.unlink()
ci.shutdown()
await_end()
""",
        tmp_path,
    )
