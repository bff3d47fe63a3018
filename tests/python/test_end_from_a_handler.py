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


def run(code, cwd, expected=("cirron.session", "x")):
    run_python(BEGIN + code, cwd=cwd, timeout=60)
    batches = [json.loads(file.read_text()) for file in cwd.glob(".cirron/spool/*.json")]
    names = sorted(span["name"] for batch in batches for span in batch["spans"])
    assert names == list(expected)


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


def test_beginning_a_session_there_has_no_effect_and_is_said_once(tmp_path):
    run(
        """
class Begins(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
        ci.shutdown()
        again.append(ci.profile(path="other"))

said, again = [], []
logging.getLogger("cirron").addHandler(Begins())
make_it_speak()
await_end()
assert again and all(handle is session for handle in again), again
assert len([text for text in said if "ci.profile() has no effect inside a log" in text]) == 1, said
assert not Path("other").exists()
ci.profile(path="other")
assert Path("other/live").exists()
""",
        tmp_path,
    )


def test_two_threads_of_the_profiler_and_the_program_end_it_at_once(tmp_path):
    run(
        """
class Out:
    def write(self, text):
        ci.shutdown()
    flush = lambda self: None

import sys
ci.shutdown()
session = ci.profile(flush_interval=0.05, frameworks=[], output=["spool", "stdout:all"])
sys.stdout = Out()
make_it_speak()
with ci.scope("y"):
    pass
ci.shutdown()
await_end()
""",
        tmp_path,
        ["cirron.session", "cirron.session", "x", "y"],
    )


def test_an_end_that_fails_is_counted(tmp_path):
    run_python(
        """
        import logging, threading, time
        from pathlib import Path
        import cirron as ci
        from sonde import _core

        class Fails(logging.Handler):
            def emit(self, record):
                if not spoke.is_set():
                    assert _core.session.stop_after_call(lambda: 1 / 0)
                    spoke.set()

        spoke = threading.Event()
        logging.getLogger("cirron").addHandler(Fails())
        ci.profile(flush_interval=0.05, frameworks=[])
        for file in Path(".cirron/live").glob("*.journal"):
            file.unlink()
        assert spoke.wait(30)
        until = time.monotonic() + 30
        while not ci.health()["swallowed_errors"] and time.monotonic() < until:
            time.sleep(0.01)
        assert ci.health()["swallowed_errors"] == {"session": 1}, ci.health()
        """,
        cwd=tmp_path,
    )
