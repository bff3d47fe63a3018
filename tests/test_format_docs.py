"""The documents are true: formats, examples, warnings, the table of folders, names of files."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from test_dependencies import MAY_USE

ROOT = Path(__file__).resolve().parent.parent
SPOOL = (ROOT / "docs/formats/spool.md").read_text()
SNAPSHOTS = (ROOT / "docs/formats/snapshots.md").read_text()
JOURNAL = (ROOT / "docs/formats/journal.md").read_text()
GUIDE = (ROOT / "docs/guide.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
INTERNALS = (ROOT / "docs/internals.md").read_text()
FOLLOW = (ROOT / "docs/follow-a-span.md").read_text()


def section(document: str, heading: str) -> str:
    """The text below a heading, up to the next one."""
    start = document.index(f"\n{heading}\n") + len(heading) + 2
    return re.split(r"^#", document[start:], maxsplit=1, flags=re.MULTILINE)[0]


def code(document: str, language: str) -> str:
    """The last block of that language; examples are at the end."""
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.DOTALL | re.MULTILINE)[-1]


def rows(text: str) -> list[list[str]]:
    """Cells of every table in it, without headings and rules."""
    tables = re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)*)", text, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def keys(heading: str, document: str = SPOOL) -> list[str]:
    return [row[0].strip("`") for row in rows(section(document, heading))]


def sonde(*arguments: object) -> str:
    command = Path(sys.executable).with_name("sonde")
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def strict_json(text: str) -> dict[str, object]:
    """Python's own reader accepts NaN and repeated keys; this one does not."""

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    def no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=no_constant, object_pairs_hook=no_repeats)


# -- spool.md ------------------------------------------------------------------------------------


def test_the_example_batch_is_strict_json_with_the_documented_keys() -> None:
    batch = strict_json(code(SPOOL, "json"))
    assert list(batch) == keys("## Batch")
    assert all(list(span) == keys("## Span") for span in batch["spans"])
    *always, nonfinite = keys("## Mark")
    assert {mark["value"] is None for mark in batch["marks"]} == {True, False}
    for mark in batch["marks"]:
        assert list(mark) == (always if mark["value"] is not None else [*always, nonfinite])
    assert f"{batch['created_ns']:020}-{batch['batch_id']}.json" in SPOOL


def test_the_table_of_span_fields_is_the_documented_one() -> None:
    text = (ROOT / "engine/model/span_fields.h").read_text()
    fields = re.findall(r'Field<"(\w+)",[^>]*?((?:k\w+ \| )*k\w+)>', text)
    assert [name for name, forms in fields if "kSpool" in forms.split(" | ")] == keys("## Span")


def test_our_reader_reads_the_example_batch(tmp_path: Path) -> None:
    file = tmp_path / "batch.json"
    file.write_text(code(SPOOL, "json"))
    assert sonde("trace", file) == code(SPOOL, "text")


def test_the_program_of_the_example_writes_such_a_batch(tmp_path: Path) -> None:
    example = strict_json(code(SPOOL, "json"))
    run_python(code(SPOOL, "python"), tmp_path, {"RANK": "1", "WORLD_SIZE": "2"})
    batches = [strict_json(f.read_text()) for f in sorted(tmp_path.glob(".cirron/spool/*.json"))]
    for kind in ("spans", "marks"):
        written = [record for batch in batches for record in batch[kind]]
        assert [shape(record) for record in written] == [shape(r) for r in example[kind]]
    assert [list(batch) for batch in batches] == [keys("## Batch")] * len(batches)


def shape(record: dict[str, object]) -> dict[str, object]:
    """What is the same in every run: the order of keys, and all values but ids, times and pid."""
    varies = ("id", "_id", "_ns", "pid")
    kept = {key: value for key, value in record.items() if not key.endswith(varies)}
    of_the_run = ("pid", "framework", "sonde.run")
    kept["attrs"] = {k: v for k, v in record["attrs"].items() if k not in of_the_run}
    kept["attrs_of_the_run"] = [k for k in record["attrs"] if k in ("pid", "sonde.run")]
    kept["order_of_attrs"] = list(record["attrs"])
    kept["mark_ids"] = len(record.get("mark_ids", ()))
    return {"keys": list(record), **kept}


def test_every_way_a_span_is_closed_is_documented() -> None:
    text = (ROOT / "engine/journal/ring_reader.cpp").read_text()
    body = text[text.index("closed_by_text(") :]
    written = set(re.findall(r'return "(\w+)";', body[: body.index("\n}\n")]))
    assert set(keys("## What we add to the schema")) == written


# -- snapshots.md --------------------------------------------------------------------------------


def test_the_example_record_has_the_documented_keys() -> None:
    record = strict_json(code(SNAPSHOTS, "json"))
    assert list(record) == keys("## Snapshot", SNAPSHOTS)
    heading = "## Stats of a tensor with values that are not finite"
    assert list(record["stats"]) == keys(heading, SNAPSHOTS)
    plain = keys("## Stats", SNAPSHOTS)
    assert list(record["stats"]["finite"]) == ["count", *plain[: plain.index("histogram") + 1]]


def test_the_program_of_the_example_writes_that_record_and_that_file(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.numpy").load_file
    example = strict_json(code(SNAPSHOTS, "json"))
    run_python(code(SNAPSHOTS, "python"), tmp_path)
    batches = [strict_json(f.read_text()) for f in sorted(tmp_path.glob(".cirron/spool/*.json"))]
    records = [record for batch in batches for record in batch["snapshots"]]
    assert [record["tensor_name"] for record in records] == ["weight", "bias"]
    varies = ("id", "span_id", "ts_ns", "blob_uri")
    written = records[0]
    assert list(written) == list(example)
    for key in written:
        assert written[key] == example[key] or key in varies, key
    assert list(records[1]["stats"]) == keys("## Stats", SNAPSHOTS), "of a clean tensor"
    path = f"snapshots/{written['span_id']}/weights.safetensors"
    assert written["blob_uri"] == f"file://{tmp_path}/.cirron/{path}"
    assert f"snapshots/{example['span_id']}/weights.safetensors" in example["blob_uri"]
    tensors = load_file(tmp_path / ".cirron" / path)
    shown = [f"{name} {tensors[name].tolist()}\n" for name in sorted(tensors)]
    assert "".join(shown) == code(SNAPSHOTS, "text")
    (mark,) = (mark for batch in batches for mark in batch["marks"])
    assert (mark["name"], mark["value"]) == ("first_non_finite", "weight")
    assert mark["span_id"] == written["span_id"]


def test_the_types_of_files_are_documented() -> None:
    text = (ROOT / "engine/snapshot/safetensors.cpp").read_text()
    body = text[text.index("std::string_view safe_type(") :]
    written = set(re.findall(r'return "(\w+)";', body[: body.index("\n}\n")])) | {"C64"}
    listed = re.search(r"Types are `([\w ]+)`", SNAPSHOTS)
    assert listed is not None
    assert set(listed[1].split()) == written


# -- journal.md ----------------------------------------------------------------------------------

STRUCT = re.compile(r"^### `(\w+)`: (\d+) bytes$", re.MULTILINE)


def layout_assertions() -> list[str]:
    """The tables as C++ that compiles only if they are true."""
    lines = []
    for name, size in STRUCT.findall(JOURNAL):
        lines.append(f"static_assert(sizeof({name}) == {size});")
        for offset, width, field, _ in rows(section(JOURNAL, f"### `{name}`: {size} bytes")):
            member = f"{name}, {field.strip('`')}"
            lines.append(f"static_assert(offsetof({member}) == {offset});")
            lines.append(f"static_assert(sizeof({member.replace(', ', '::')}) == {width});")
    for name, value, _ in rows(section(JOURNAL, "## The file")):
        lines.append(f"static_assert({name.strip('`')} == {value});")
    return lines


def compiles(assertions: list[str]) -> subprocess.CompletedProcess[str]:
    program = [
        "#include <cstddef>",
        '#include "engine/record/journal.h"',
        "using namespace sonde::record;",
        *assertions,
    ]
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", ROOT]
    return subprocess.run(
        [*command, "-x", "c++", "-"], input="\n".join(program), capture_output=True, text=True
    )


def test_the_tables_of_the_journal_agree_with_its_header() -> None:
    assertions = layout_assertions()
    assert len(assertions) > 150
    done = compiles(assertions)
    assert done.returncode == 0, done.stderr


def test_a_wrong_offset_is_noticed() -> None:
    assertions = layout_assertions()
    wrong = [line.replace("depth) == 16", "depth) == 20") for line in assertions]
    assert wrong != assertions
    assert compiles(wrong).returncode != 0


@pytest.mark.parametrize(("name", "size"), STRUCT.findall(JOURNAL))
def test_the_tables_of_the_journal_leave_no_byte_out(name: str, size: str) -> None:
    at = 0
    for offset, width, field, _ in rows(section(JOURNAL, f"### `{name}`: {size} bytes")):
        assert int(offset) == at, field
        at += int(width)
    assert at == int(size)


def test_the_example_reader_of_the_journal_finds_what_a_killed_process_had_open(
    tmp_path: Path,
) -> None:
    program = """
        import os, signal, cirron as ci
        ci.profile(flush_interval=3600)
        for epoch in ci.epochs(range(3)):
            with ci.scope("forward"):
                pass
        outer = ci.scope("epoch", index=7)
        with outer, ci.scope("x" * 2000, key="value"):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    run_python(program, tmp_path, status=-signal.SIGKILL)
    (journal,) = tmp_path.glob(".cirron/live/*.journal")
    printed = run_python(code(JOURNAL, "python"), tmp_path, arguments=(journal,)).splitlines()
    names = [line.rpartition(" ")[0] for line in printed]
    assert names == ["cirron.session", "  epoch[7]", "    " + "x" * 2000]

    sonde("autopsy", tmp_path)
    spans = [
        span
        for file in sorted(tmp_path.glob(".cirron/spool/*.json"))
        for span in strict_json(file.read_text())["spans"]
    ]
    dead = {s["id"] for s in spans if s["attrs"].get("sonde.closed_by") == "death"}
    assert {line.rpartition(" ")[2] for line in printed} == dead
    assert len([s for s in spans if s["name"] == "forward"]) == 3


def run_python(
    program: str,
    directory: Path,
    environment: dict[str, str] | None = None,
    arguments: tuple[object, ...] = (),
    status: int = 0,
) -> str:
    unset = ("CIRRON_", "RANK", "LOCAL_RANK", "WORLD_SIZE")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        cwd=directory,
        env=clean | {"HOME": str(directory)} | (environment or {}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


# -- guide.md ------------------------------------------------------------------------------------


def sources() -> str:
    """All sources, with string literals that are split over several lines joined."""
    files = [
        *(ROOT / "engine").rglob("*.cpp"),
        *(ROOT / "python").rglob("*.cpp"),
        *(ROOT / "python").rglob("*.py"),
    ]
    text = "\n".join(path.read_text() for path in files)
    return re.sub(r'"\s*\n?\s*f?"', "", text)


def test_every_warning_in_the_guide_is_one_that_the_program_has() -> None:
    spoken = sources()
    quoted = [row[0].strip("`") for row in rows(section(GUIDE, "## Warnings, and what to do"))]
    assert len(quoted) > 15
    fragments = [part.strip() for text in quoted for part in text.split("...") if part.strip()]
    assert [fragment for fragment in fragments if fragment not in spoken] == []


# -- ARCHITECTURE.md, internals.md and follow-a-span.md -------------------------------------------


def folders_that_exist() -> set[str]:
    return {name for name in MAY_USE if (ROOT / "engine" / name).is_dir()}


def table_of_folders() -> dict[str, set[str]]:
    """Folder of engine/ -> what the table in ARCHITECTURE.md says it may use."""
    found = {}
    for folder, _, uses in rows(section(ARCHITECTURE, "## Folders")):
        name = folder.strip("`").removeprefix("engine/")
        if folder.startswith("`engine/"):
            without_remarks = re.sub(r"\([^)]*\)", "", uses)
            found[name] = {used.strip() for used in without_remarks.split(",") if used.strip()}
    return found


def test_the_table_of_folders_is_the_one_that_is_enforced() -> None:
    existing = folders_that_exist()
    enforced = {name: MAY_USE[name] & existing for name in existing}
    assert table_of_folders() == enforced


@pytest.mark.parametrize(
    "document",
    [ARCHITECTURE, INTERNALS, FOLLOW],
    ids=["architecture", "internals", "follow-a-span"],
)
def test_every_path_in_the_document_exists(document: str) -> None:
    tops = "engine|python|tests|bench|docs"
    named = set(re.findall(rf"`((?:{tops})/[\w./-]+)`", document))
    assert len(named) > 20
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_function_on_the_way_of_a_span_exists() -> None:
    missing = []
    lines = re.findall(r"^- `([\w./-]+)`: (`.*`)$", FOLLOW, re.MULTILINE)
    assert len(lines) > 20
    for path, names in lines:
        text = (ROOT / path).read_text()
        for name in re.findall(r"`([\w:]+)`", names):
            if not re.search(rf"\b{re.escape(name)}\b", text):
                missing.append(f"{path}: {name}")
    assert missing == []


def test_every_type_on_the_way_of_a_span_exists() -> None:
    pairs = re.findall(r"`(\w+)`\s+in\s+`([\w./-]+\.h)`", FOLLOW)
    assert len(pairs) > 4
    for name, path in pairs:
        assert re.search(rf"\bstruct {name}\b", (ROOT / path).read_text()), f"{path}: {name}"


# -- links -----------------------------------------------------------------------------------------


def anchors(document: str) -> set[str]:
    """The fragments that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        file, _, fragment = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (fragment and fragment not in anchors(there.read_text())):
            broken.append(target)
    assert broken == []
