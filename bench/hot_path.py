"""Times calls that a training loop makes thousands of times a second, compared with a lock.

Runs with our wheel and, unchanged, with the reference SDK. Every sample is 1,000 iterations of each
function in turn, so a slow machine slows all of them. Between rounds a flush outside the timing
empties the buffers; with a full buffer the drain would be measured.

The threads of the profiler run on another processor than this thread, as they do in a training
program. Every record then goes to memory that the other processor has just read, which is the real
cost of recording. The scheduler would let them share a processor in some runs and not in others.

    hot_path.py ROUNDS [disabled]
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import cirron as ci

ITERATIONS = 1000


def lock(lock: threading.Lock) -> None:
    for _ in range(ITERATIONS):
        with lock:
            pass


def scope() -> None:
    for _ in range(ITERATIONS):
        with ci.scope("x"):
            pass


def mark() -> None:
    for _ in range(ITERATIONS):
        ci.mark("loss", 0.5)


def epochs() -> None:
    for _ in ci.epochs(range(ITERATIONS)):
        pass


def batches() -> None:
    for _ in ci.batches(range(ITERATIONS)):
        pass


def measure(rounds: int, bodies: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Nanoseconds per iteration, the median over all rounds."""
    samples: dict[str, list[int]] = {name: [] for name in bodies}
    clock = time.perf_counter_ns
    for number in range(rounds + 10):
        # A loss belongs to a step, so marks are written while a scope is open.
        with ci.scope("step", index=number):
            for name, body in bodies.items():
                start = clock()
                body()
                samples[name].append(clock() - start)
        ci.flush()
    return {name: median(taken[10:]) / ITERATIONS for name, taken in samples.items()}


def keep_apart() -> None:
    """This thread on the first processor, all others on the last."""
    time.sleep(0.2)  # until they have started
    processors = sorted(os.sched_getaffinity(0))
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {processors[-1]})
    os.sched_setaffinity(0, {processors[0]})


def main() -> None:
    rounds, enabled = int(sys.argv[1]), "disabled" not in sys.argv
    ci.profile(frameworks=[], enabled=enabled)
    keep_apart()
    one = threading.Lock()
    bodies = {"lock": lambda: lock(one), "scope": scope}
    if enabled:
        bodies |= {"mark": mark, "epochs": epochs, "batches": batches}
    found = measure(rounds, bodies)
    health = ci.health()
    found["dropped"] = sum(
        health.get(key, 0) for key in ("scope_drop_count", "span_drop_count", "mark_drop_count")
    )
    print(json.dumps(found))


main()
