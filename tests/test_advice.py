"""Every key of a message with advice is in one list, engine/base/advice.h."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cirron.face import CirronFace
from sonde import _core
from sonde.face import Face

ROOT = Path(__file__).resolve().parent.parent
LISTED = set(_core.session.general_advice())
# log_once(level, "topic", "key", ...), and the functions and values in front of it.
IN_CPP = re.compile(
    r'\b(?:log_once\(\s*[\w:]+,\s*"[\w.]+",|warn\(|say_failed\(|advise\(|kNotCopied ='
    r'|complaints\.push_back\(\s*\{(?:\w+ \?)?)\s*"([a-z][a-z-]*)"'
)


def keys_in_cpp(text: str) -> set[str]:
    return set(IN_CPP.findall(text))


def keys_in_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr == "advise" and isinstance(first, ast.Constant):
                yield str(first.value)


def used() -> set[str]:
    found = set()
    for top in ("engine", "python"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".cpp", ".h"}:
                found |= keys_in_cpp(path.read_text())
            elif path.suffix == ".py":
                found |= set(keys_in_python(path.read_text()))
    return found


def test_every_key_that_a_message_uses_is_listed() -> None:
    assert used() - LISTED == set()


def test_every_listed_key_is_used() -> None:
    assert LISTED - used() == set()


@pytest.mark.parametrize("face", [Face, *Face.__subclasses__()])
def test_every_key_of_a_face_is_listed(face: type[Face]) -> None:
    assert face.advice.keys() - LISTED == set()


def test_the_faces_are_looked_at() -> None:
    assert CirronFace in Face.__subclasses__()
    assert len(CirronFace.advice) > 10


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('base::log_once(base::LogLevel::kWarning, "flush", "a-b",', {"a-b"}),
        ('log_once(\n  LogLevel::kInfo, "snapshots.stats", "c",', {"c"}),
        ('warn("d",', {"d"}),
        ('face.advise("e")', {"e"}),
        ('complaints.push_back(\n   {"f",', {"f"}),
        ('complaints.push_back(\n   {usable_ ? "h" : x,', {"h"}),
        ("log_once(LogLevel::kInfo, topic, complaint.key)", set()),
    ],
)
def test_a_key_is_found(text: str, keys: set[str]) -> None:
    assert keys_in_cpp(text) == keys


def test_a_key_in_python_is_found() -> None:
    assert set(keys_in_python("x = 1 + face.current().advise('g')")) == {"g"}
