"""Every key of a message with advice is in one list, engine/base/advice.h, and so are its words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cirron.face import CirronFace
from sonde import _core
from sonde.face import Face

ROOT = Path(__file__).resolve().parent.parent
WORDS = _core.session.general_advice()
LISTED = set(WORDS)
# The functions that say something, each with the places of the key and of the advice.
SPEAKERS = {
    "log_once": (2, 4),
    "log_failure": (1, 4),
    "warn": (0, None),
    "or_warn": (0, None),
    "advise": (0, None),
    "push_back": (0, 2),  # of a Complaint
}
CALL = re.compile(r"\b(" + "|".join(SPEAKERS) + r")\(\s*(\{)?")
CONSTANT = re.compile(r'\b(k[A-Z]\w*) =\s*((?:"(?:[^"\\]|\\.)*"\s*)+);')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
KEY = re.compile(r"[a-z][a-z-]*")


class Message(NamedTuple):
    keys: set[str]
    advice: str  # as it is written in the source; "" where the call gives none


def arguments(text: str, start: int) -> list[str]:
    """The arguments of a call whose parenthesis or brace was opened just before `start`."""
    found, depth, at, begin = [], 0, start, start
    while depth >= 0 and at < len(text):
        if literal := LITERAL.match(text, at):
            at = literal.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0 or (depth == 0 and text[at] == ","):
            found.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return found


def messages_in_cpp(text: str) -> Iterator[Message]:
    constants = dict(CONSTANT.findall(text))
    for call in CALL.finditer(text):
        key_at, advice_at = SPEAKERS[call[1]]
        if (call[1] == "push_back") != bool(call[2]):
            continue  # a push_back of something else
        given = arguments(text, call.end())
        if len(given) <= key_at:
            continue
        key = constants.get(given[key_at], given[key_at])
        keys = {found for found in LITERAL.findall(key) if KEY.fullmatch(found)}
        has_advice = advice_at is not None and len(given) > advice_at
        yield Message(keys, given[advice_at] if has_advice else "")


def keys_in_cpp(text: str) -> set[str]:
    return {key for message in messages_in_cpp(text) for key in message.keys}


def repeated(text: str, words: dict[str, str]) -> set[str]:
    """Keys that have words in the list, and for which a call gives fixed words all the same."""
    constants = dict(CONSTANT.findall(text))
    found = set()
    for keys, advice in messages_in_cpp(text):
        names = set(re.findall(r"[A-Za-z_]\w*", LITERAL.sub("", advice)))
        if advice and names <= set(constants):
            found |= {key for key in keys if words.get(key)}
    return found


def keys_in_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr == "advise" and isinstance(first, ast.Constant):
                yield str(first.value)


def sources(*suffixes: str) -> Iterator[Path]:
    for top in ("engine", "python"):
        yield from (each for each in sorted((ROOT / top).rglob("*")) if each.suffix in suffixes)


def used() -> set[str]:
    found = set()
    for path in sources(".cpp", ".h"):
        found |= keys_in_cpp(path.read_text())
    for path in sources(".py"):
        found |= set(keys_in_python(path.read_text()))
    return found


def test_every_key_that_a_message_uses_is_listed() -> None:
    assert used() - LISTED == set()


def test_every_listed_key_is_used() -> None:
    assert LISTED - used() == set()


def test_the_listed_words_of_a_key_stand_in_the_list_only() -> None:
    found = {path.name: repeated(path.read_text(), WORDS) for path in sources(".cpp", ".h")}
    assert {name: keys for name, keys in found.items() if keys} == {}


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
        ('or_warn("i", kFailed, [&] { return f(1, "no"); })', {"i"}),
        ('log_failure("place", "j",', {"j"}),
        ('constexpr std::string_view kKey = "k";\nlog_once(level, "flush", kKey,', {"k"}),
        ("log_once(LogLevel::kInfo, topic, complaint.key)", set()),
        ('names.push_back("l")', set()),
    ],
)
def test_a_key_is_found(text: str, keys: set[str]) -> None:
    assert keys_in_cpp(text) == keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('log_once(level, "flush", "a", "text, and (more", "do this");', {"a"}),
        ('log_once(level, "flush", "a", f(1, 2) + "; ",\n "do this " "or that");', {"a"}),
        ('constexpr auto kDo = "do this";\nlog_once(level, "flush", "a", "text", kDo);', {"a"}),
        ('log_failure("place", "a", "text", error.what(), "do this");', {"a"}),
        ('complaints.push_back({usable_ ? "b" : "a", text, "do this"});', {"a"}),
        ('log_once(level, "flush", "a", "text");', set()),
        ('log_once(level, "flush", "a", "text", "make " + path + " writable");', set()),
        ('log_once(level, "flush", "b", "text", "do this");', set()),
    ],
)
def test_words_that_a_call_repeats_are_found(text: str, keys: set[str]) -> None:
    assert repeated(text, {"a": "what to do", "b": ""}) == keys


def test_a_key_in_python_is_found() -> None:
    assert set(keys_in_python("x = 1 + face.current().advise('g')")) == {"g"}
