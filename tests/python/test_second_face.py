"""Another API needs nothing but a Face: no line of python/sonde or of the engine is about one."""

import json

import pytest
from other_face import run
from sonde import session
from sonde.state import State


def test_names_folder_and_variables_are_those_of_the_face(tmp_path):
    run(
        """
import os
os.environ["OTHER_JOB"] = "j1"
handle = init()
assert handle.health()["spool_dir"] == os.path.abspath("logs/spool")
assert handle.health()["transport"] == "nowhere"
assert handle.state().platform == {"job": "j1"}
handle.shutdown()
""",
        cwd=tmp_path,
    )
    batches = [json.loads(file.read_text()) for file in tmp_path.glob("logs/spool/*.json")]
    roots = [span for batch in batches for span in batch["spans"] if span["parent_id"] is None]
    assert [root["name"] for root in roots] == ["other.session"]
    assert roots[0]["attrs"]["other.job"] == "j1"


def test_a_handle_has_nothing_of_another_api():
    public = {name for name in dir(session.Handle) if not name.startswith("_")}
    assert public == {"enabled", "flush", "shutdown", "state"}
    assert not {"flush_restart_count", "installed_hooks", "enabled"} & State().counters.keys()


def test_messages_are_in_the_words_of_the_face(tmp_path):
    said = run(
        """
handle = init()
init()
session.watch(Other(), None)
handle.shutdown()
""",
        cwd=tmp_path,
    )
    assert (
        "[other] init() called more than once: the first session goes on, these arguments are "
        "ignored; say stop() first" in said.stderr
    )
    assert "[other] other.see() cannot capture" in said.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("init(mode='bogus')", "mode 'bogus' is not valid"),
        ("init(logs_dir=3)", "logs_dir must be a directory name"),
        ("init(colour=3)", "no option colour"),
    ],
)
def test_a_bad_option_is_called_by_its_name_and_changes_nothing(tmp_path, call, message):
    run(
        f"""
import cirron
from sonde import face, log
before = face.current()
try:
    {call}
except (TypeError, ValueError) as error:
    assert {message!r} in str(error), error
else:
    raise AssertionError("it was taken")
assert face.current() is before
assert before.name == "cirron"
assert session.current() is None
""",
        cwd=tmp_path,
    )


def test_a_session_that_could_not_begin_says_so_in_its_health(tmp_path):
    said = run(
        """
def no_transport(self, platform, spool_dir):
    raise OSError("no route")
Other.transport, kept = no_transport, Other.transport
handle = init()
health = handle.health()
assert handle.enabled is False and health["flush_mode"] == "stopped"
assert health["swallowed_errors"] == {"session": 1}, health
assert health["swallowed_error_count"] == 1
assert health["flushed_batches"] == 0
handle.shutdown()
Other.transport = kept
assert init().health()["swallowed_error_count"] == 0
""",
        cwd=tmp_path,
    )
    assert "profiling is off for this run (OSError: no route)" in said.stderr


def test_the_health_of_a_failed_session_has_no_errors_of_the_one_before(tmp_path):
    run(
        """
from sonde import log
first = init()
log.swallowed("earlier")
first.shutdown()
assert first.health()["swallowed_errors"] == {"earlier": 1}
def no_transport(self, platform, spool_dir):
    raise OSError("no route")
Other.transport = no_transport
failed = init()
assert failed.health()["swallowed_errors"] == {"session": 1}, failed.health()
assert failed.health()["swallowed_error_count"] == 1
""",
        cwd=tmp_path,
    )


def test_a_session_that_began_half_way_makes_way_for_the_next(tmp_path):
    run(
        """
import logging
import sys
del sys.excepthook  # the session wants to listen to it, after the engine has begun
half = init(logs_dir="first")
assert half.enabled is False
assert half.health()["swallowed_errors"] == {"session": 1}, half.health()
assert half.health()["journal"] is None
half.shutdown()
sys.excepthook = sys.__excepthook__
handle = init(logs_dir="second")
assert handle.health()["journal"].startswith(handle.health()["spool_dir"][:-len("spool")])
handle.shutdown()
""",
        cwd=tmp_path,
    )
    assert list(tmp_path.glob("second/spool/*.json"))
    assert not list(tmp_path.glob("*/live/*.journal"))
