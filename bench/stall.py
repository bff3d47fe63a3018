"""The longest time for which a main thread that records at a steady rate does not get on.

The thread looks at the clock as often as it can and records a span whenever one is due; a stall is
a gap between two looks. On a shared machine most long gaps are somebody else's: another process,
the hypervisor. So every second with the profiler is followed by one of the same loop without it.

What we cause comes back with every flush, once a second, and so shows in the worst gap of most
seconds; what the machine does strikes seconds of both kinds alike. Therefore the worst gaps of all
seconds of a kind are sorted and compared rank by rank, and the stall is the largest excess of ours
over the control, the top tenth left out (a few seconds of either kind are hit by chance alone).
Where even our single worst gap is shorter than that, it is the answer.

    stall.py SECONDS RATE
"""

import json
import sys
import time
from collections.abc import Callable

import cirron as ci

SECOND_NS = 1_000_000_000


def worst_gap(record: Callable[[], None], rate: int) -> int:
    """One second of the loop; nanoseconds."""
    clock = time.perf_counter_ns
    period = SECOND_NS // rate
    last = due = clock()
    end = last + SECOND_NS
    worst = 0
    while last < end:
        now = clock()
        gap = now - last
        if gap > worst:
            worst = gap
        last = now
        if now >= due:
            due += period
            record()
    return worst


def record_span() -> None:
    with ci.scope("x"):
        pass


def record_nothing() -> None:
    pass


def attributed(ours: list[int], control: list[int]) -> int:
    """The part of our gaps that the control does not explain; both sorted."""
    counted = len(ours) - len(ours) // 10
    excess = max(a - b for a, b in zip(ours[:counted], control[:counted], strict=True))
    return max(0, min(excess, ours[-1]))


def main() -> None:
    seconds, rate = int(sys.argv[1]), int(sys.argv[2])
    ci.profile(frameworks=[])
    worst_gap(record_span, rate)
    ours, control = [], []
    for _ in range(seconds):
        ours.append(worst_gap(record_span, rate))
        ci.flush()  # what is left over is not the next second's
        control.append(worst_gap(record_nothing, rate))
    ours.sort()
    control.sort()
    found = {
        "stall": attributed(ours, control),
        "ours_worst": ours[-1],
        "ours_typical": ours[len(ours) // 2],
        "control_worst": control[-1],
        "control_typical": control[len(control) // 2],
    }
    print(json.dumps(found))


main()
