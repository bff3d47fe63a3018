"""Reads a spool directory strictly: every file must be complete and valid JSON of the schema."""

import json
import re
from pathlib import Path

FILE_NAME = re.compile(r"(\d{20})-([0-9a-f]{32})\.json")
ID = re.compile(r"[0-9a-f]{32}")
BATCH_KEYS = [
    "schema_version",
    "sdk_version",
    "batch_id",
    "created_ns",
    "spans",
    "marks",
    "snapshots",
]
SPAN_KEYS = ["id", "name", "parent_id", "index", "start_ns", "end_ns", "cpu_ns", "gpu_ns",
             "memory_peak_bytes", "thread_id", "pid", "rank", "attrs", "mark_ids"]  # fmt: skip
MARK_KEYS = ["id", "span_id", "name", "value_type", "value", "attrs", "ts_ns", "kind"]


def strict_json(text):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def group(items, key):
    found = {}
    for item in items:
        found.setdefault(item[key], []).append(item)
    return found


class Spool:
    """All batches of a directory, oldest first."""

    def __init__(self, directory):
        self.files = sorted(Path(directory).glob("*.json"))
        self.batches = [strict_json(file.read_text(encoding="utf-8")) for file in self.files]
        self.spans = [span for batch in self.batches for span in batch["spans"]]
        self.marks = [mark for batch in self.batches for mark in batch["marks"]]
        self.by_id = {span["id"]: span for span in self.spans}
        self.by_name = group(self.spans, "name")
        self.marks_by_span = group(self.marks, "span_id")
        self.check()

    def check(self):
        for file, batch in zip(self.files, self.batches, strict=True):
            match = FILE_NAME.fullmatch(file.name)
            assert match, file.name
            assert int(match[1]) == batch["created_ns"]
            assert match[2] == batch["batch_id"]
            assert [key for key in batch if key in BATCH_KEYS] == BATCH_KEYS
            assert batch["schema_version"] == 1
            assert batch["spans"] or batch["marks"] or batch["snapshots"]
        for span in self.spans:
            assert [key for key in span if key in SPAN_KEYS] == SPAN_KEYS
            assert ID.fullmatch(span["id"])
            assert span["end_ns"] >= span["start_ns"]
        for mark in self.marks:
            assert [key for key in mark if key in MARK_KEYS] == MARK_KEYS
        assert len(self.by_id) == len(self.spans), "a span was written twice"
        assert len({mark["id"] for mark in self.marks}) == len(self.marks), (
            "a mark was written twice"
        )

    def names(self):
        return [span["name"] for span in self.spans]

    def named(self, name):
        return self.by_name.get(name, [])

    def one(self, name):
        (span,) = self.named(name)
        return span

    def marks_of(self, span):
        return self.marks_by_span.get(span["id"], [])

    def mark(self, name):
        (mark,) = [mark for mark in self.marks if mark["name"] == name]
        return mark

    def path(self, span):
        """Names from the outermost known ancestor down to the span."""
        names = []
        while span is not None:
            names.append(span["name"])
            span = self.by_id.get(span["parent_id"])
        return names[::-1]
