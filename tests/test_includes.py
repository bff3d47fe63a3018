"""A C++ file includes what it uses of the standard library, itself or through its own header.

Which header brings which other along differs between compilers and their versions. clang-tidy
checks the same for the engine, but cannot for python/native, because of Python.h.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("engine", "python/native")
# What is used -> the header that has it
HEADERS = {
    r"std::u?int(?:8|16|32|64)_t\b|std::u?intptr_t\b": "cstdint",
    r"std::(?:size_t|ptrdiff_t|byte)\b|\boffsetof\(": "cstddef",
    r"std::string\b|std::to_string\b": "string",
    r"std::string_view\b": "string_view",
    r"std::vector\b": "vector",
    r"std::array\b": "array",
    r"std::(?:unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)\b": "memory",
    r"std::(?:move|exchange|forward|pair|swap)\b": "utility",
    r"std::optional\b": "optional",
    r"std::atomic\b": "atomic",
    r"std::function\b": "functional",
    r"std::deque\b": "deque",
    r"std::map\b": "map",
    r"std::set\b": "set",
    r"std::(?:mutex|lock_guard|unique_lock)\b": "mutex",
    r"std::span\b": "span",
    r"std::(?:min|max|sort|find|any_of|clamp)\(|std::ranges::": "algorithm",
    r"std::mem(?:cpy|cmp|set)\b": "cstring",
}
INCLUDE = re.compile(r"^#include <(\w+)>", re.MULTILINE)


def missing(path: Path) -> list[str]:
    text = path.read_text()
    there = set(INCLUDE.findall(text))
    own = path.with_suffix(".h")
    if path.suffix == ".cpp" and own.exists():
        there |= set(INCLUDE.findall(own.read_text()))
    code = re.sub(r"//.*", "", text)
    return sorted({header for used, header in HEADERS.items() if re.search(used, code)} - there)


def sources(root: Path) -> list[Path]:
    found = [file for folder in FOLDERS for file in (root / folder).rglob("*")]
    return sorted(file for file in found if file.suffix in {".h", ".cpp"})


def test_every_file_includes_what_it_uses_of_the_standard_library() -> None:
    lacking = {
        file.relative_to(ROOT).as_posix(): headers
        for file in sources(ROOT)
        if (headers := missing(file))
    }
    assert lacking == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.h", "std::uint32_t id;", ["cstdint"]),
        ("a.h", "#include <cstdint>\nstd::uint32_t id;", []),
        ("a.h", "// as std::string\nint id;", []),
        ("b.cpp", '#include "b.h"\nstd::string_view text;', []),
        ("b.cpp", "std::ranges::sort(all);", ["algorithm"]),
    ],
)
def test_a_missing_header_is_found(
    tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    (tmp_path / "b.h").write_text("#include <string_view>\n")
    (tmp_path / name).write_text(text)
    assert missing(tmp_path / name) == expected
