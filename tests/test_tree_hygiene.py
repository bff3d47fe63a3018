"""No file names a package registry or a path of one machine, or is too long or too wide."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500
MAX_COLUMNS = 100
CPP = {".cpp", ".h", ".cu", ".cuh"}
CPP_FOLDERS = ("engine/", "python/native/", "tests/", "bench/")
SOURCES = {".cpp", ".h", ".cu", ".cuh", ".py", ".pyi", ".ts", ".tsx", ".css", ".sh", ".cmake"}

# The configuration of a machine says where packages come from; pip and npm read it themselves.
REGISTRY = re.compile(
    r"(extra-)?index-url\b|find-links\b|trusted-host\b|_authToken\b|\bregistry\s*="
    r"|\"resolved\":\s*\"https?:|\b(artifactory|jfrog|nexus)\b",
    re.IGNORECASE,
)
# Paths that exist on one machine only. Recorded data (fixtures) may hold such paths.
MACHINE_PATH = re.compile(r"(?<![\w.}])/(home|root|Users|work)/[\w.]")


def tracked_files() -> list[Path]:
    """Files that are, or would be, committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def matches(pattern: re.Pattern[str], text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def found(pattern: re.Pattern[str]) -> list[str]:
    here = Path(__file__).resolve()
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if path != here and "fixtures" not in path.parts
        for number in matches(pattern, text_of(path) or "")
    ]


def test_no_file_names_a_package_registry() -> None:
    assert found(REGISTRY) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert found(MACHINE_PATH) == []


def test_no_source_is_too_long_to_read() -> None:
    lengths = {
        str(path.relative_to(ROOT)): (text_of(path) or "").count("\n")
        for path in tracked_files()
        if path.suffix in SOURCES
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def too_wide(name: str, line: str) -> bool:
    """Tests and benches quote whole batches: a line with a literal may be longer."""
    quotes = name.startswith(("tests/", "bench/")) and '"' in line
    return len(line) > MAX_COLUMNS and not quotes


def test_no_line_of_cpp_is_too_wide() -> None:
    """Formatting does not see to that: it leaves comments as they are (ReflowComments: Never)."""
    names = {path: str(path.relative_to(ROOT)) for path in tracked_files()}
    assert [
        f"{name}:{number}"
        for path, name in names.items()
        if path.suffix in CPP and name.startswith(CPP_FOLDERS)
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        if too_wide(name, line)
    ] == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (REGISTRY, "pip install --extra-index-url https://example.invalid/simple sonde"),
        (REGISTRY, "registry=https://example.invalid/npm"),
        (MACHINE_PATH, 'open("/home/somebody/trace.json")'),
        (MACHINE_PATH, "cd /work/checkout"),
    ],
)
def test_the_patterns_find_such_lines(pattern: re.Pattern[str], line: str) -> None:
    assert matches(pattern, line) == [1]


@pytest.mark.parametrize("line", ["${HOME}/x", "tests/work/x", "//host.invalid/home/x", "/tmp/x"])
def test_ordinary_lines_pass(line: str) -> None:
    assert matches(REGISTRY, line) + matches(MACHINE_PATH, line) == []
