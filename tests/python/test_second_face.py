"""Another API needs nothing but a Face: no line of python/sonde or of the engine is about one."""

import json

import pytest
from other_face import run


def test_names_folder_and_variables_are_those_of_the_face(tmp_path):
    run(
        """
import os
os.environ["OTHER_JOB"] = "j1"
handle = init()
assert handle.health()["spool_dir"] == os.path.abspath("logs/spool")
assert handle.health()["transport"] == "nowhere"
assert handle.platform_context == {"job": "j1"}
handle.shutdown()
""",
        cwd=tmp_path,
    )
    batches = [json.loads(file.read_text()) for file in tmp_path.glob("logs/spool/*.json")]
    roots = [span for batch in batches for span in batch["spans"] if span["parent_id"] is None]
    assert [root["name"] for root in roots] == ["other.session"]
    assert roots[0]["attrs"]["other.job"] == "j1"


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
    assert "[other] other.see(NoneType, name: NoneType)" in said.stderr


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
