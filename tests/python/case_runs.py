"""Runs the programs of cases/ in separate processes, and reads what they left."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from sonde_command import sonde
from spool_files import Spool

CASES = Path(__file__).parent / "cases"
TIMEOUT_S = 240

# Runs a program and prints an expression of its variables, before the interpreter ends.
THEN = """
import json, runpy, sys
path, expression, *sys.argv[1:] = sys.argv[1:]
names = runpy.run_path(path, run_name="__main__")
print("then:" + json.dumps(eval(expression, names)))
"""


class CaseRun:
    """What a program left in its folder."""

    def __init__(self, folder, status, stdout, stderr):
        self.folder, self.status, self.stdout, self.stderr = folder, status, stdout, stderr
        self.output = folder / ".cirron"
        self.spool = Spool(self.output / "spool")
        self.roots = forest(self.spool)

    @property
    def session(self):
        (root,) = [root for root in self.roots if root["name"] == "cirron.session"]
        return root

    def named(self, name, under=None):
        return named(under or self.session, name)

    def epochs(self):
        return self.named("epoch")

    def then(self):
        """The value of the expression that was given to run_case()."""
        (line,) = [line for line in self.stdout.splitlines() if line.startswith("then:")]
        return json.loads(line.removeprefix("then:"))

    def snapshots(self):
        """A list of epochs in order of time: each a dict from tensor to record."""
        found = {epoch["id"]: {} for epoch in self.epochs()}
        for batch in self.spool.batches:
            for record in batch["snapshots"]:
                tensors = found[record["span_id"]]  # only epochs have snapshots
                assert record["tensor_name"] not in tensors, "captured twice"
                tensors[record["tensor_name"]] = record
        return list(found.values())

    def runs(self):
        """How many runs `sonde trace` tells apart in the directory."""
        text = sonde("trace", self.output, "--run", "100000").stderr
        if "holds no run;" in text:
            return 0
        held = re.search(r"holds (?:only run|runs 1 to) (\d+);", text)
        return int(held[1]) if held else 1


def run_case(folder, name, *args, then=None, status=0, **options):
    """Runs cases/<name>.py in a new folder; `then`: an expression to be printed after it."""
    folder.mkdir(parents=True)
    start = ["-c", THEN, str(CASES / f"{name}.py"), then] if then else [str(CASES / f"{name}.py")]
    process = start_python(folder, [*start, *map(str, args)], **options)
    return finish(process, folder, status)


def start_python(folder, args, env=None):
    return subprocess.Popen(
        [sys.executable, *args],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (env or {}),
    )


def finish(process, folder, status=0):
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == status, f"status {process.returncode}\n{stdout}\n{stderr}"
    return CaseRun(folder, process.returncode, stdout, stderr)


def run_ranks(folder, source, count=2):
    """The program as torchrun starts it; a folder for each rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(count):
        home = folder / str(rank)
        home.mkdir(parents=True)
        env = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        processes.append((start_python(home, ["-c", source], env), home))
    return [finish(process, home) for process, home in processes]


# -- trees --


def forest(spool):
    """The spans as nested dicts, children in order of time."""
    nodes = {span["id"]: span | {"children": []} for span in spool.spans}
    roots = []
    for node in sorted(nodes.values(), key=lambda span: (span["start_ns"], -span["end_ns"])):
        parent = nodes.get(node["parent_id"])
        (parent["children"] if parent else roots).append(node)
    return roots


def named(node, name):
    """All spans of that name below a node, in order of time."""
    found = []
    for child in node["children"]:
        if child["name"] == name:
            found.append(child)
        found += named(child, name)
    return found


def count(node, name):
    return len(named(node, name))


# -- attributes whose names may change --


def exception_of(span):
    """Type and message of the exception that passed through the span; None where none did."""
    attrs = span["attrs"]
    if "exception" not in attrs:
        return None
    return attrs["exception"], attrs.get("exception_message")


def is_skipped(step):
    return step["attrs"].get("skipped") is True


def class_of(span):
    """The class of a forward's module or of an optimizer step's optimizer."""
    key = {"forward": "module", "optimizer_step": "optimizer"}[span["name"]]
    return span["attrs"].get(key)
