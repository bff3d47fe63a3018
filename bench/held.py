"""What 100,000 spans with a mark each cost while held for trace(): memory, and reading them.

They are recorded at 20,000 a second, like a fast training loop. The DataFrame is compared with
one that pandas makes from as many dicts, as a user would do by hand.

    held.py SPANS READINGS
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import cirron as ci
import pandas
from resident import resident_bytes

BURST, RATE = 1000, 20_000


def record(count: int) -> None:
    for _ in range(count):
        with ci.scope("step"):
            ci.mark("loss", 0.5)


def record_paced(count: int) -> None:
    due = time.perf_counter()
    for _ in range(count // BURST):
        record(BURST)
        due += BURST / RATE
        time.sleep(max(0.0, due - time.perf_counter()))


def settled_bytes() -> int:
    ci.flush()
    time.sleep(1.5)
    gc.collect()
    return resident_bytes()


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_by_hand(count: int) -> list[dict[str, object]]:
    keys = [f"field_{number}" for number in range(14)]
    return [dict.fromkeys(keys, number) for number in range(count)]


def main() -> None:
    spans, readings = int(sys.argv[1]), int(sys.argv[2])
    ci.profile(frameworks=[])
    record(100)
    ci.trace(format="df")
    before = settled_bytes()
    record_paced(spans)
    grown = settled_bytes() - before

    frames, by_hand = [], []
    rows = rows_by_hand(spans)
    for _ in range(readings):
        by_hand.append(seconds(lambda: pandas.DataFrame(rows)))
        frames.append(seconds(lambda: ci.trace(format="df")))
    length = len(ci.trace(format="df"))
    if length < min(spans, 100_000):
        sys.exit(f"trace() holds {length} of {spans} spans")
    print(json.dumps({"grown": grown, "df": median(frames), "by_hand": median(by_hand)}))


main()
