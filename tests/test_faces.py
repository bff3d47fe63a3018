"""The engine and python/sonde know no API: each API hands over what is special about it (Face)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".txt"}
# The name of an API, a function written as a program of one API writes it, or a name that the
# handle or the health of one API has.
FACE = re.compile(
    r"cirron|traceml|\bci\.|flush_restart_count|installed_hooks|hook_handles", re.IGNORECASE
)
# In a text that a user or a reader of the documentation sees: the functions of an API.
CALL = re.compile(r"\b(?:profile|shutdown|health|watch|wrap|trace|flush)\(")
C_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# A name that spool v1 itself fixes may stand in the codec.
EXEMPT = ("engine/codec/",)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a file, each with its line; in Python the docstrings too."""
    text = path.read_text()
    if path.suffix in {".py", ".pyi"}:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
    elif path.suffix != ".txt":
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, match[0]) for match in C_STRING.finditer(line))


def lines_with_a_face(root: Path) -> list[str]:
    found = []
    for top in ("engine", "python/sonde", "python/native"):
        for path in sorted((root / top).rglob("*")):
            where = path.relative_to(root).as_posix()
            if path.suffix not in SOURCES or where.startswith(EXEMPT):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if FACE.search(line):
                    found.append(f"{where}:{number}: {line.strip()}")
            for number, text in strings(path):
                if CALL.search(text):
                    found.append(f"{where}:{number}: {text.strip()[:80]}")
    return found


def test_engine_and_sonde_name_no_face() -> None:
    assert lines_with_a_face(ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("engine/session/a.cpp", 'log("cirron.flush");', 1),
        ("python/sonde/a.py", "import os\nX = 'TRACEML_DISABLED'", 1),
        ("python/native/a.cpp", "// the Cirron API", 1),
        ("python/sonde/a.py", "x.installed_hooks = []", 1),
        ("engine/hook/a.h", "// A turn of ci.batches begins.", 1),
        ("engine/hook/a.h", "a.begin();  // basic.h", 0),
        ("engine/report/a.cpp", 'text = "they were switched off by profile(snapshots)";', 1),
        ("engine/report/a.cpp", 'text = "say \\"health()\\" now";', 1),
        ("engine/report/a.cpp", "queue_watch();  // watch() of the queue", 0),
        ("python/sonde/a.py", "def f():\n    '''As shutdown() does.'''", 1),
        ("python/sonde/a.py", "x = f'{y}: watch({z})'", 1),
        ("python/sonde/a.py", "watch('threading')", 0),
        ("engine/codec/a.h", 'kName = "cirron.session";', 0),
        ("python/cirron/a.py", "NAME = 'cirron'", 0),
    ],
)
def test_a_face_is_found_where_it_must_not_be(
    tmp_path: Path, name: str, text: str, count: int
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(lines_with_a_face(tmp_path)) == count
