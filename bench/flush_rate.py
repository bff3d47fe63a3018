"""Spans per second through flush(), from the buffers to the files.

flush_rate.py ROUNDS
"""

import json
import sys
import time
from statistics import median

import cirron as ci

SPANS = 15_000

ci.profile(frameworks=[], flush_interval=3600)
taken = []
for _ in range(int(sys.argv[1])):
    for _ in range(SPANS):
        with ci.scope("x"):
            pass
    start = time.perf_counter()
    ci.flush()
    taken.append(time.perf_counter() - start)
print(json.dumps({"spans_per_second": SPANS / median(taken)}))
