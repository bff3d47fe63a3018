"""Runs the measuring scripts, each in a separate process, and collects what they print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
DATA = ROOT / "build" / "bench-data"
# Each interpreter has an environment of its own: .venv-3.12 measures what lies in build/bench-3.12.
BUILT = ROOT / "build" / Path(sys.prefix).name.replace(".venv", "bench")
OURS = BUILT / "ours" / "bin"
PEER = BUILT / "peer" / "bin"
ENGINE = BUILT / "tree" / "bench" / "engine"
# The last processor: interrupts tend to go to the first.
ONE_CORE = max(os.sched_getaffinity(0))


class MeasuringError(Exception):
    """A script died; the text says which and how."""


@dataclass
class Scratch:
    """A new folder, also the working directory and home of the process that runs in it."""

    path: Path = field(init=False)

    def __enter__(self) -> Path:
        DATA.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(dir=DATA))
        return self.path

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def clean_environment(home: Path) -> dict[str, str]:
    """The environment without variables that would configure a profiler or Python."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CIRRON_", "PYTHON"))}
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(home),
        "CIRRON_OUTPUT_DIR": str(home / "out"),
        "CIRRON_SPOOL_MAX_BYTES": str(10**11),
    }


def run(command: Sequence[str | Path], home: Path, extra: Mapping[str, str] | None = None) -> str:
    """Standard output of a command that must succeed."""
    environment = clean_environment(home) | dict(extra or {})
    done = subprocess.run(
        [str(part) for part in command],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise MeasuringError(f"{Path(command[0]).name} {command[1:]} failed: {said}")
    return done.stdout


@cache
def script(where: Path, name: str, *arguments: str, processes: int = 1) -> dict[str, Any]:
    """What bench/NAME.py prints, run with the interpreter in `where`; measured once.

    With several processes, each number is the median over them: every process places things
    differently in memory, and that changes what they cost.
    """
    found = []
    for _ in range(processes):
        with Scratch() as home:
            text = run([where / "python", BENCH / f"{name}.py", *arguments], home)
        found.append(last_json(text))
    if processes == 1:
        return found[0]
    return {key: median(one[key] for one in found) for key in found[0]}


def last_json(text: str) -> dict[str, Any]:
    """The object on the last line: a script may print other things before."""
    return dict(json.loads(text.splitlines()[-1]))


@cache
def engine_bench(name: str, pattern: str, one_core: bool) -> dict[str, dict[str, float]]:
    """Medians of a Google Benchmark executable, by name of the benchmark."""
    command: list[str | Path] = ["taskset", "-c", str(ONE_CORE)] if one_core else []
    command += [
        ENGINE / f"{name}_bench",
        f"--benchmark_filter={pattern}",
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_format=json",
    ]
    with Scratch() as home:
        found = json.loads(run(command, home))["benchmarks"]
    failed = [b["error_message"] for b in found if b.get("error_occurred")]
    if failed or not found:
        raise MeasuringError(f"{name}_bench {pattern}: {failed or 'no such benchmark'}")
    return {b["run_name"].split("/iterations")[0]: b for b in found if wanted(b)}


def wanted(result: Mapping[str, Any]) -> bool:
    return result["run_type"] == "iteration" or result.get("aggregate_name") == "median"


def have_peer() -> bool:
    return (PEER / "python").exists()


def peer_version() -> str:
    """Name and version of the reference SDK, for the header."""
    if not have_peer():
        return "no reference SDK"
    code = "from importlib.metadata import version; print(version('cirron-sdk'))"
    with Scratch() as home:
        return "cirron-sdk " + run([PEER / "python", "-c", code], home).strip()


def progress(text: str) -> None:
    """A line that tells the user what is going on."""
    print(f"  {text}", file=sys.stderr, flush=True)
