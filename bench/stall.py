"""The longest stall of a main thread that records at a steady rate.

The thread reads the clock as often as it can and records a span whenever one is due. A stall is a
gap between two readings. On a shared machine most long gaps have other causes: another process, the
hypervisor. Gaps that the profiler causes are found in three ways, and the longest counts:

- Waiting for the profiler: in the gap the thread gave up the processor voluntarily, because it
  needed a lock, the interpreter or the disk. The kernel counts that. The worst gap of all counts.
- Making way for the profiler: other threads of this process ran while this one did not. Usually
  they are the cause, but another process may have interrupted the thread at that moment. What they
  do comes back with every flush, once a second. So the worst gap of each second is taken, without
  the top tenth of them.
- Working for the profiler: the thread itself was busy, for example because recording took an
  expensive path. Time taken by the hypervisor looks the same from inside. So every second with the
  profiler is followed by one of the same loop without it. The worst gaps of each kind of second
  are sorted, and the largest excess at the same rank counts, again without the top tenth.

    stall.py SECONDS RATE
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import cirron as ci

SECOND_NS = 1_000_000_000
WORTH_A_LOOK_NS = 50_000


@dataclass
class Worst:
    """The worst gaps of one second, in nanoseconds."""

    gap: int = 0
    waiting: int = 0
    making_way: int = 0
    working: int = 0

    def add(self, gap: int, own_cpu: int, other_cpu: int, blocked: bool) -> None:
        self.gap = max(self.gap, gap)
        if blocked:
            self.waiting = max(self.waiting, gap)
        else:
            self.making_way = max(self.making_way, min(gap, other_cpu))
        self.working = max(self.working, min(gap, own_cpu))


def voluntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def one_second(record: Callable[[], None], rate: int) -> Worst:
    clock, all_threads, this_thread = (
        time.perf_counter_ns,
        time.process_time_ns,
        time.thread_time_ns,
    )
    period = SECOND_NS // rate
    worst = Worst()
    switches, all_cpu, own_cpu = voluntary_switches(), all_threads(), this_thread()
    last = due = clock()
    end = last + SECOND_NS
    while last < end:
        now = clock()
        gap, last = now - last, now
        all_now, own_now = all_threads(), this_thread()
        if gap > WORTH_A_LOOK_NS:
            own = own_now - own_cpu
            switches_now = voluntary_switches()
            worst.add(gap, own, all_now - all_cpu - own, switches_now != switches)
            switches = switches_now
        all_cpu, own_cpu = all_now, own_now
        if now >= due:
            due += period
            record()
    return worst


def record_span() -> None:
    with ci.scope("x"):
        pass


def record_nothing() -> None:
    pass


def without_top_tenth(values: list[int]) -> list[int]:
    return sorted(values)[: len(values) - len(values) // 10]


def main() -> None:
    seconds, rate = int(sys.argv[1]), int(sys.argv[2])
    ci.profile(frameworks=[])
    one_second(record_span, rate)
    ours, control = [], []
    for _ in range(seconds):
        ours.append(one_second(record_span, rate))
        ci.flush()  # so that the rest is not counted in the next second
        control.append(one_second(record_nothing, rate))
    busy = without_top_tenth([second.working for second in ours])
    busy_without = without_top_tenth([second.working for second in control])
    found = {
        "waiting": max(second.waiting for second in ours),
        "making_way": without_top_tenth([second.making_way for second in ours])[-1],
        "working": max(0, *(a - b for a, b in zip(busy, busy_without, strict=True))),
    }
    found["stall"] = max(found.values())
    found["usual"] = median(max(second.waiting, second.making_way) for second in ours)
    found["gap"] = max(second.gap for second in ours)
    found["control_gap"] = max(second.gap for second in control)
    print(json.dumps(found))


main()
