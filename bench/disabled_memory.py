"""Memory of a process that goes through scopes while the profiler is switched off.

disabled_memory.py SCOPES
"""

import json
import sys

import cirron as ci
from resident import resident_bytes


def go_through(count: int) -> None:
    for _ in range(count):
        with ci.scope("x"):
            pass


count = int(sys.argv[1])
ci.profile(frameworks=[], enabled=False)
go_through(1000)
before = resident_bytes()
go_through(count)
print(json.dumps({"scopes": count, "grown": resident_bytes() - before}))
