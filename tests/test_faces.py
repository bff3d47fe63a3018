"""No face in the engine and in python/sonde: an API is one value that it hands over itself."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".txt"}
FACE = re.compile(r"cirron|traceml", re.IGNORECASE)
# A name that spool v1 itself fixes may stand in the codec.
EXEMPT = ("engine/codec/",)


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
    return found


def test_engine_and_sonde_name_no_face() -> None:
    assert lines_with_a_face(ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("engine/session/a.cpp", 'log("cirron.flush");', 1),
        ("python/sonde/a.py", "import os\nX = 'TRACEML_DISABLED'", 1),
        ("python/native/a.cpp", "// the Cirron API", 1),
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
