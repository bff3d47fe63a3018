"""Writes a spool the way a training run does: epochs, batches, and three phases in each batch.

make_spool.py DIRECTORY SPANS
"""

import sys

import cirron as ci

PER_BATCH, PER_FLUSH = 4, 10_000  # spans

directory, spans = sys.argv[1], int(sys.argv[2])
instance = ci.Cirron(output_dir=directory, spool_max_bytes=10**12, trace_buffer_max_spans=1)
profiler = instance.profile(frameworks=[])
for _ in ci.epochs(range(10)):
    for number in ci.batches(range(spans // PER_BATCH // 10)):
        with ci.scope("forward"):
            pass
        with ci.scope("backward"):
            pass
        with ci.scope("optimizer_step"):
            pass
        if number % 100 == 0:
            ci.mark("loss", 0.5)
        if number % (PER_FLUSH // PER_BATCH) == 0:
            profiler.flush()
profiler.flush()
health = profiler.health()
lost = sum(value for key, value in health.items() if key.endswith("_drop_count"))
if lost:
    sys.exit(f"{lost} records were dropped")
profiler.shutdown()
