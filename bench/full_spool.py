"""A flush into a spool that already holds many files, compared with one into an empty spool.

Sessions with the two kinds of spool alternate. In each, a few flushes of 100 spans are timed. The
first one counts too, because a profiler may list the directory then.

    full_spool.py FILES SESSIONS
"""

import json
import shutil
import sys
import time
from pathlib import Path
from statistics import median

import cirron as ci

FLUSHES = 10


def fill(spool: Path, files: int) -> None:
    spool.mkdir(parents=True)
    empty = '{"schema_version":1,"sdk_version":"0","batch_id":"%032x","created_ns":%d,'
    for number in range(files):
        text = empty % (number, number) + '"spans":[],"marks":[],"snapshots":[]}'
        (spool / f"{number:020d}-{number:032x}.json").write_text(text)


def flush_milliseconds(instance: ci.Cirron) -> list[float]:
    """The times of all flushes of one session."""
    profiler = instance.profile(frameworks=[])
    taken = []
    for _ in range(FLUSHES):
        for _ in range(100):
            with ci.scope("x"):
                pass
        start = time.perf_counter_ns()
        profiler.flush()
        taken.append((time.perf_counter_ns() - start) / 1e6)
    profiler.shutdown()
    return taken


def main() -> None:
    files, sessions = int(sys.argv[1]), int(sys.argv[2])
    full, empty = Path("full"), Path("empty")
    fill(full / "spool", files)
    times: dict[Path, list[list[float]]] = {full: [], empty: []}
    for _ in range(sessions):
        shutil.rmtree(empty, ignore_errors=True)
        for where in (empty, full):
            times[where].append(flush_milliseconds(ci.Cirron(output_dir=str(where))))
    found = {
        name: {
            "first": median(session[0] for session in times[where]),
            "any": median(t for session in times[where] for t in session),
        }
        for name, where in (("full", full), ("empty", empty))
    }
    print(json.dumps(found))


main()
