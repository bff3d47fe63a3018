"""`make bench`: measures every promise about speed and memory and compares it with its budget.

Everything is measured in turn with a baseline in the same run, so a slow or busy machine slows
both; medians are compared. The result is one table, the same numbers in build/bench.json, and a
failure if a budget of bench/budgets.json is missed.

    python bench/run.py [--quick] [--only NAME]... [--list]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from child import PEER, ROOT, MeasuringError, have_peer, peer_version, progress
from report import Budget, Line, Measurement, table
from rows import FULL, QUICK, ROWS, Effort, Row

BUDGETS = Path(__file__).resolve().parent / "budgets.json"
RESULT = ROOT / "build" / "bench.json"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure and check bench/budgets.json.")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this row; repeatable")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to try things out")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    return parser.parse_args()


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown CPU"


def header() -> dict[str, object]:
    return {
        "cpu": f"{len(os.sched_getaffinity(0))} x {cpu_model()}",
        "kernel": ".".join(platform.release().split(".")[:2]),  # the rest names a machine
        "python": platform.python_version(),
        "reference": peer_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def measure(row: Row, effort: Effort, budget: Budget) -> Line:
    progress(row.what.strip())
    measured: Measurement | None = None
    problem = ""
    try:
        measured = row.measure(effort)
    except (MeasuringError, OSError, KeyError) as error:
        problem = f"{type(error).__name__}: {error}".replace("\n", " ")
    return Line(row.name, row.what, budget, measured, problem)


def chosen(only: list[str] | None) -> list[Row]:
    names = [row.name for row in ROWS]
    if unknown := set(only or ()) - set(names):
        sys.exit(f"no row is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [row for row in ROWS if not only or row.name in only]


def main() -> int:
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    rows = chosen(arguments.only)
    budgets: dict[str, Budget] = json.loads(BUDGETS.read_text())
    machine = header()
    if not have_peer():
        progress(
            f"the reference SDK is not installed in {PEER}, so nothing is compared with it "
            "(make bench-setup installs it)"
        )
    start = time.monotonic()
    effort = QUICK if arguments.quick else FULL
    lines = [measure(row, effort, budgets[row.name]) for row in rows]
    seconds = round(time.monotonic() - start)
    machine["load_after"] = round(os.getloadavg()[0], 2)

    about = (
        "{cpu}, Linux {kernel}, Python {python}, {reference}, load {load_before} to {load_after}"
    )
    about = about.format(**machine) + f", {seconds} s{', quick' if arguments.quick else ''}"
    print(f"\n{about}\n\n{table(lines)}")
    missed = [line.name for line in lines if line.verdict() != "ok"]
    print(f"\n{'missed: ' + ', '.join(missed) if missed else 'all budgets kept'}")
    if not arguments.only:
        result = {**machine, "seconds": seconds, "rows": [line.as_json() for line in lines]}
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if missed else 0


sys.exit(main())
