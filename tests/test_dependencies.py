"""The direction of dependencies (ARCHITECTURE.md), as a test.

Every include in engine/ and python/native/ and every import in the Python packages is read from
the source text, so a violation is found even where it happens to compile.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# folder of engine/ -> folders it may include from, besides itself
MAY_USE: dict[str, set[str]] = {
    "base": set(),
    "record": {"base"},
    "model": {"base"},
    "line": {"base", "model"},
    "codec": {"base", "model"},
    "journal": {"base", "model", "record"},
    "spool": {"base", "model", "codec", "journal"},
    "run": {"base", "model", "codec", "journal", "spool", "analysis"},
    "snapshot": {"base", "model"},
    "probe": {"base", "model"},
    "hook": {"base", "record", "probe"},
    "session": {
        "base",
        "record",
        "model",
        "line",
        "codec",
        "journal",
        "spool",
        "snapshot",
        "probe",
    },
    "analysis": {"base", "model"},
    "report": {"base", "model", "line", "analysis"},
    "export": {"base", "model", "analysis"},
    "store": {"base", "model"},
    "collector": {"base", "model", "codec", "run", "store", "analysis", "report"},
    "tui": {
        "base",
        "model",
        "run",
        "analysis",
        "report",
        "export",
        "store",
        "collector",
    },
    "cli": {
        "base",
        "model",
        "run",
        "analysis",
        "report",
        "export",
        "store",
        "collector",
        "tui",
    },
}

# (user, used) -> the only files of `used` that `user` may include: code that reads a journal needs
# its layout, not the code that writes it.
ONLY_FILES: dict[tuple[str, str], str] = {("journal", "record"): r"layout\w*\.h"}

# engine/codec parses what a collector receives, so it knows no files.
FILE_SYSTEM = re.compile(
    r"fcntl\.h|unistd\.h|dirent\.h|sys/(?:stat|mman)\.h|filesystem|fstream|cstdio|stdio\.h"
    r"|engine/base/file\.h"
)

# The layout of a journal is for code that reads journals, its own or another process's. All other
# code asks the functions of engine/record, and nothing outside names what is private there.
LAYOUT = "engine/record/layout.h"
READS_LAYOUT = {"record", "journal"}
TESTS_OF_LAYOUT = {"support"}  # tests/engine/support: what other tests need of the layout
RECORD_PRIVATE = re.compile(r"\brecord::detail\b")
# Names that only the layout's types have are found whatever stands before them.
SLOT_MEMBERS = (
    r"arena_used|block_used|closing|first_block|head|inherited_parent|inherited_session|lost_depth"
    r"|lost_marks|lost_spans|names_used|next_sequence|pending_tail|session_text|session_thread_id"
    r"|tail|text_offset|alive_ns|pending_id|depth\.(?:load|store|exchange|fetch_\w+)"
)
SLOTS = re.compile(
    rf"(?:\.|->)(?:{SLOT_MEMBERS})\b(?!\()|(?:\.|->)stack\s*\["
    r"|\blane(?:\([^()]*\)|\[[^\]]*\])(?:\.|->)|\blanes(?:\(\))?\[[^\]]*\](?:\.|->)"
    r"|\.scope\(\)(?:\.|->)|\bstack_?(?:\.|->)arena\b|\b(?:block_at|bytes_of_block)\("
    r"|\b(?:record::OpenScope|SpanRecord|MarkRecord|ThreadRecord|BlockHeader|kSlotClosed)\b"
    r"|\brecord::Header\b|\bjournal(?:\.|->)header\(|\binstance\(\)\.header\(|\bjournal_header\("
    r"|\b(?:lane|stack)_?(?:\.|->)"
    r"(?:stack\[|(?:head|depth|tenancy|number|state|thread_id|next_sequence|block|tail)\b)"
)

# Python package -> our packages it may import, besides itself.
PACKAGES: dict[str, set[str]] = {
    "sonde": set(),
    "cirron": {"sonde"},
    "traceml": {"sonde"},
    "traceml_ai": {"traceml"},  # the same API by its other name
}

NOT_A_NAME = {"utils", "helpers", "common", "manager"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
PYTHON_HEADER = re.compile(r"(Python|structmember|frameobject)\.h|(nanobind|pybind11|cpython)/.*")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def cpp_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".hpp", ".cc"})


def why_engine_include_is_wrong(user: str, bracket: str, target: str) -> str | None:
    """What is wrong with `#include target` in a file of engine/<user>, or None."""
    if PYTHON_HEADER.fullmatch(target):
        return "Python belongs to python/native"
    if user == "codec" and FILE_SYSTEM.fullmatch(target):
        return "engine/codec knows no file system"
    if not target.startswith("engine/"):
        return "write it from the repository root: engine/..." if bracket == '"' else None
    _, used, *rest = target.split("/")
    if used == user:
        return None
    if used not in MAY_USE[user]:
        return f"engine/{user} may use only {sorted(MAY_USE[user]) or 'the standard library'}"
    if target == LAYOUT and user not in READS_LAYOUT:
        return "the layout is for code that reads journals"
    only = ONLY_FILES.get((user, used))
    if only and not re.fullmatch(only, "/".join(rest)):
        return f"engine/{user} may use only {only} of engine/{used}"
    return None


def check_engine(root: Path) -> Iterator[str]:
    for path in cpp_files(root / "engine"):
        where = path.relative_to(root)
        user = where.parts[1]
        if user not in MAY_USE:
            yield f"{where}: engine/{user} has no line in MAY_USE"
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            why = why_engine_include_is_wrong(user, match[1], match[2])
            if why:
                yield f"{where}:{line_of(text, match.start())}: {match[2]}: {why}"


def check_native(root: Path) -> Iterator[str]:
    for path in cpp_files(root / "python"):
        where = path.relative_to(root)
        if where.parts[1] != "native":
            yield f"{where}: C++ belongs to python/native"
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            at = f"{where}:{line_of(text, match.start())}: {match[2]}"
            if match[1] == '"' and not match[2].startswith(("engine/", "python/native/")):
                yield f"{at}: write it from the root"
            if match[2] == LAYOUT:
                yield f"{at}: the layout is for code that reads journals"


def check_record_is_closed(root: Path) -> Iterator[str]:
    for top in ("engine", "python", "bench", "tests"):
        for path in cpp_files(root / top):
            where = path.relative_to(root)
            folder = where.parts[:2]
            text = path.read_text()
            if folder != ("engine", "record"):
                for match in RECORD_PRIVATE.finditer(text):
                    yield f"{where}:{line_of(text, match.start())}: private to engine/record"
            if folder[0] == "tests":
                folder = where.parts[1:3]
            reads_layout = folder[0] == "engine" and folder[1] in READS_LAYOUT | TESTS_OF_LAYOUT
            if not reads_layout:
                for match in SLOTS.finditer(text):
                    yield f"{where}:{line_of(text, match.start())}: slots are engine/record's"


def imports(tree: ast.AST, lazy: bool = False) -> Iterator[tuple[int, str, bool]]:
    """(line, top-level module, whether it waits for a call or for a type checker) per import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0], lazy
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.lineno, node.module.partition(".")[0], lazy
        else:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from imports(node, lazy or is_function or is_typing)


def why_import_is_wrong(package: str, folder: str, module: str, lazy: bool) -> str | None:
    """What is wrong with `import module` in a file of python/<package>, or None."""
    if module in sys.stdlib_module_names or module == package or module in PACKAGES[package]:
        return None
    if module in PACKAGES:
        return f"{package} may use only {sorted(PACKAGES[package]) or 'the engine'}"
    if package != "sonde":
        # A class of the API may have to be a subclass of one of a framework.
        if folder != "integrations":
            return "a face uses sonde only, and frameworks in its integrations/"
        return None if lazy else "import the framework inside a function"
    # Frameworks are optional. A hook is imported only once its framework is, so it may name that
    # one at the top.
    if not lazy and folder != "hooks":
        return "import other packages inside the function that needs them"
    return None


def check_python(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((root / "python" / package).rglob("*.py")):
            where = path.relative_to(root)
            folder = where.parts[2]
            for line, module, lazy in imports(ast.parse(path.read_text())):
                why = why_import_is_wrong(package, folder, module, lazy)
                if why:
                    yield f"{where}:{line}: {module}: {why}"


def check_names(root: Path) -> Iterator[str]:
    for top in ("engine", "python", "tests", "bench", "tools", "web", "examples"):
        for path in sorted((root / top).rglob("*")):
            if "node_modules" not in path.parts and path.name.partition(".")[0] in NOT_A_NAME:
                yield f"{path.relative_to(root)}: say what is in it instead"


def check_tree(root: Path) -> list[str]:
    checks = (check_engine, check_native, check_record_is_closed, check_python, check_names)
    return [problem for check in checks for problem in check(root)]


def test_nothing_in_the_tree_goes_against_the_direction() -> None:
    assert check_tree(ROOT) == []


def test_the_table_has_no_cycle() -> None:
    # A folder that uses only folders which are done is done; a cycle would leave some over.
    done: set[str] = set()
    while ready := {f for f, uses in MAY_USE.items() if f not in done and uses <= done}:
        done |= ready
    assert done == set(MAY_USE)


def test_cmake_links_along_the_same_table() -> None:
    text = (ROOT / "engine" / "CMakeLists.txt").read_text()
    line = re.compile(
        r"^sonde_folder\((\w+)(?: USES ([a-z ]+?))?(?: (?:EXTERNAL|INTERNAL) .*)?\)", re.MULTILINE
    )
    linked = {match[1]: set((match[2] or "").split()) for match in line.finditer(text)}
    assert linked == MAY_USE


# -- cycles --


Graph = dict[str, set[str]]


def reach(graph: Graph, start: str) -> set[str]:
    """What can be reached from `start`; that includes `start` itself if there is a cycle."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def cycles(graph: Graph) -> set[frozenset[str]]:
    """The groups of nodes that can be reached from each other."""
    reached = {node: reach(graph, node) for node in graph}
    return {
        frozenset(other for other in reached[node] if node in reached.get(other, ()))
        for node in graph
        if node in reached[node]
    }


def units(root: Path) -> Graph:
    """x.h and x.cpp are one unit: what does each of them include?"""
    graph: Graph = {}
    for top in ("engine", "python/native"):
        for path in cpp_files(root / top):
            unit = path.relative_to(root).with_suffix("").as_posix()
            targets = {match[2].rpartition(".")[0] for match in INCLUDE.finditer(path.read_text())}
            graph.setdefault(unit, set()).update(targets - {unit})
    return graph


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """Modules of ours that are imported, at the top or in a function, but not for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else str(node.module) for name in names)
        else:
            yield from imported(node, modules)


def python_modules(root: Path) -> Graph:
    files = {}
    for package in PACKAGES:
        for path in (root / "python" / package).rglob("*.py"):
            name = ".".join(path.relative_to(root / "python").with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
    return {
        name: {each for each in imported(ast.parse(path.read_text()), set(files)) if each in files}
        - {name}
        for name, path in files.items()
    }


def test_no_cycle_of_units() -> None:
    assert cycles(units(ROOT)) == set()


def test_no_cycle_of_python_modules() -> None:
    graph = python_modules(ROOT)
    assert len(graph) > 40
    assert cycles(graph) == set()


def test_a_cycle_is_found(tmp_path: Path) -> None:
    write(tmp_path, "engine/a/x.h", "")
    write(tmp_path, "engine/a/x.cpp", '#include "engine/a/x.h"\n#include "engine/a/y.h"')
    write(tmp_path, "engine/a/y.h", "")
    assert cycles(units(tmp_path)) == set()
    write(tmp_path, "engine/a/y.cpp", '#include "engine/a/x.h"')
    assert cycles(units(tmp_path)) == {frozenset({"engine/a/x", "engine/a/y"})}


def test_a_cycle_of_modules_is_found(tmp_path: Path) -> None:
    write(tmp_path, "python/sonde/__init__.py", "")
    write(tmp_path, "python/sonde/a.py", "from sonde import b")
    write(tmp_path, "python/sonde/b.py", "if TYPE_CHECKING:\n    from sonde.a import A")
    assert cycles(python_modules(tmp_path)) == set()
    write(tmp_path, "python/sonde/b.py", "def f():\n    from sonde.a import g")
    assert cycles(python_modules(tmp_path)) == {frozenset({"sonde.a", "sonde.b"})}


# -- the checks, checked --

# Self-check: a checker that finds nothing proves nothing. Each case is the one file of a tree, and
# what must be said of it.
FORBIDDEN = [
    ("engine/base/a.h", '#include "engine/model/x.h"', "standard library"),
    ("engine/record/a.cpp", '#include "engine/session/x.h"', "may use only ['base']"),
    ("engine/record/a.cpp", "#  include <engine/model/x.h>", "may use only ['base']"),
    ("engine/journal/a.cpp", '#include "engine/record/lane.h"', "may use only layout"),
    ("engine/codec/a.cpp", '#include "engine/base/file.h"', "knows no file system"),
    ("engine/codec/a.h", "#include <filesystem>", "knows no file system"),
    ("engine/codec/a.h", "# include <fcntl.h>", "knows no file system"),
    ("engine/cli/a.cpp", '#include "engine/record/layout.h"', "engine/cli may use only"),
    ("engine/session/a.h", '#include "engine/record/layout.h"', "code that reads journals"),
    ("engine/hook/a.h", "#include <engine/record/layout.h>", "code that reads journals"),
    ("python/native/a.cpp", '#include "engine/record/layout.h"', "code that reads journals"),
    ("engine/session/a.cpp", "return record::detail::t_state;", "private to engine/record"),
    ("python/native/a.cpp", "sonde::record::detail::g_gate", "private to engine/record"),
    ("bench/engine/a.cpp", "using namespace record::detail;", "private to engine/record"),
    ("engine/session/a.cpp", "lane->stack[0].name = 1;", "slots are engine/record's"),
    ("engine/session/a.h", "void f(const record::OpenScope&);", "slots are engine/record's"),
    ("engine/session/a.cpp", "using record::SpanRecord;", "slots are engine/record's"),
    ("engine/session/a.cpp", "record::Header& head = f();", "slots are engine/record's"),
    ("engine/session/a.cpp", "Journal::instance().header();", "slots are engine/record's"),
    ("engine/session/a.cpp", "f(journal.header());", "slots are engine/record's"),
    ("engine/hook/a.h", "record::SpanRecord* record;", "slots are engine/record's"),
    ("engine/hook/a.h", "return here.stack.tenancy;", "slots are engine/record's"),
    ("python/native/a.cpp", "x = thread->lane->thread_id;", "slots are engine/record's"),
    ("python/native/a.cpp", "return stack.number;", "slots are engine/record's"),
    ("engine/hook/a.h", "return journal.lane(i).depth;", "slots are engine/record's"),
    ("engine/hook/a.h", "lanes[0]->stack[3].sequence;", "slots are engine/record's"),
    ("engine/hook/a.h", "mine.stack[h.slot].name = 1;", "slots are engine/record's"),
    ("engine/hook/a.h", "auto& ring = *thread.lane;\nring.head;", "slots are engine/record's"),
    ("engine/hook/a.h", "return here.stack.arena;", "slots are engine/record's"),
    ("engine/session/a.cpp", "f(open.scope().name);", "slots are engine/record's"),
    ("bench/engine/a.cpp", "block_at(3);", "slots are engine/record's"),
    ("tests/engine/run/a.cpp", "lane.pending_tail = {};", "slots are engine/record's"),
    ("tests/fuzz/a.cpp", "bytes_of_block(3);", "slots are engine/record's"),
    ("engine/cli/a.cpp", '#include "engine/spool/reader.h"', "engine/cli may use only"),
    ("engine/tui/a.cpp", '#include "engine/session/x.h"', "engine/tui may use only"),
    ("engine/report/a.cpp", '#include "engine/cli/x.h"', "engine/report may use only"),
    ("engine/base/a.h", "#include <Python.h>", "python/native"),
    ("engine/session/a.h", "#include <nanobind/nanobind.h>", "python/native"),
    ("engine/session/a.h", '#include "../record/lane.h"', "from the repository root"),
    ("engine/base/a.h", '#include "b.h"', "from the repository root"),
    ("engine/novel/a.h", "", "no line in MAY_USE"),
    ("python/native/a.cpp", '#include "../../engine/base/x.h"', "from the root"),
    ("python/sonde/a.cpp", "", "belongs to python/native"),
    ("python/sonde/a.py", "import cirron", "sonde may use only"),
    ("python/sonde/a.py", "import torch", "inside the function"),
    ("python/cirron/a.py", "from traceml.x import y", "cirron may use only ['sonde']"),
    ("python/cirron/a.py", "def f():\n    import numpy", "a face uses sonde only"),
    ("python/traceml/integrations/a.py", "import transformers", "inside a function"),
    ("python/traceml/hooks/a.py", "def f():\n    import torch", "a face uses sonde only"),
    ("python/traceml/integrations/a.py", "import cirron", "traceml may use only ['sonde']"),
    ("python/traceml_ai/a.py", "import cirron", "traceml_ai may use only ['traceml']"),
    ("python/sonde/integrations/a.py", "import torch", "inside the function"),
    ("engine/base/utils.h", "", "say what is in it"),
    ("python/sonde/helpers.py", "", "say what is in it"),
]
ALLOWED = [
    ("engine/base/a.cpp", '#include "engine/base/a.h"\n#include <vector>\n#include <sys/mman.h>'),
    (
        "engine/journal/a.cpp",
        '#include "engine/record/layout.h"\n#include "engine/record/layout_ring.h"',
    ),
    ("engine/session/a.cpp", '#include "engine/record/lane.h"\n#include "engine/spool/x.h"'),
    ("engine/journal/a.cpp", "void f(const record::OpenScope& scope);"),
    ("engine/spool/a.cpp", '#include <fstream>\n#include "engine/base/file.h"'),
    ("engine/journal/a.cpp", "record::SpanRecord r; view.header(); lane->number;"),
    ("tests/engine/journal/a.cpp", "lane.pending_tail = {};"),
    ("tests/engine/record/a.cpp", "record::SpanRecord r = f(block_at(3));"),
    ("tests/engine/support/a.h", "scope.stack->stack[scope.slot].closing = 1;"),
    ("engine/session/a.cpp", "tree.depth[0]; losses.depth; file.tail(3); append(open.scope());"),
    ("engine/hook/a.h", "record::Provisional span; record::tenancy_of(here.stack);"),
    ("engine/record/a.cpp", '#include "engine/record/layout.h"\nrecord::detail::g_gate;'),
    ("python/native/a.cpp", '#include "engine/record/lane.h"\nrecord::this_thread();'),
    (
        "python/native/a.cpp",
        '#include <Python.h>\n#include "engine/session/x.h"\n#include "python/native/b.h"',
    ),
    (
        "python/sonde/a.py",
        "import os\nfrom sonde import _core\nfrom . import b\ndef f():\n    import numpy",
    ),
    ("python/sonde/hooks/torch.py", "import torch"),
    ("python/cirron/a.py", "import typing\nfrom sonde import session"),
    (
        "python/traceml/integrations/a.py",
        "def __getattr__(name):\n    import transformers\n"
        "if TYPE_CHECKING:\n    from lightning import Trainer",
    ),
    ("python/traceml_ai/__init__.py", "from traceml import *"),
]


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("name", "text", "said"), FORBIDDEN)
def test_a_forbidden_line_is_found(tmp_path: Path, name: str, text: str, said: str) -> None:
    write(tmp_path, name, text)
    problems = check_tree(tmp_path)
    assert len(problems) == 1
    assert problems[0].startswith(name)
    assert said in problems[0]


@pytest.mark.parametrize(("name", "text"), ALLOWED)
def test_an_allowed_line_passes(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    assert check_tree(tmp_path) == []
