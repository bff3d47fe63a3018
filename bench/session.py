"""What profile() and shutdown() take together, with the spool and nothing recorded.

session.py ROUNDS

Prints two numbers: the median of the rounds, in a process that has done it before; and the first
time in this process, which includes all imports.
"""

import json
import sys
import time
from statistics import median

import cirron as ci


def once() -> int:
    start = time.perf_counter_ns()
    ci.profile()
    ci.shutdown()
    return time.perf_counter_ns() - start


first = once()
again = median(once() for _ in range(int(sys.argv[1])))
print(json.dumps({"first": first, "again": again}))
