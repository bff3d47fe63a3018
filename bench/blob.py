"""What writing a blob does to training: the time of a step while 1 GB is written, and without.

A round is some steps without a blob, steps while one is being written, and steps without one again.
The middle part is compared with the two around it; the difference between those two is the noise.
One thread trains.

On a machine that other programs use, the clock measures them more than the writer. So the processor
time of the training thread is compared too. It includes what the writer costs it through cache and
memory. It does not include the time in which the writer runs instead of it; for that, the processor
time of the writer is given, divided by the time of the whole part.

The statistics and the copy, which are made by the call, are timed separately.

    blob.py ROUNDS
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import cirron as ci
import torch
from sonde import _core
from torch import nn

BYTES = 10**9
TENSORS = 50
BARE_SECONDS = 1.5
STEPS = 20


@dataclass
class Part:
    """One part of a round: times of a step, each the mean over all steps of the part."""

    clock: float
    cpu: float
    seconds: float


def make_step() -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 256), torch.randn(64, 256)
    lossf = nn.MSELoss()

    def step() -> None:
        optimizer.zero_grad()
        lossf(model(x), y).backward()
        optimizer.step()

    return step


def train(step: Callable[[], None], over: Callable[[], bool]) -> Part:
    steps = 0
    start, start_cpu = time.perf_counter(), time.thread_time()
    while not over():
        for _ in range(STEPS):
            step()
        steps += STEPS
    seconds, cpu = time.perf_counter() - start, time.thread_time() - start_cpu
    return Part(seconds / steps, cpu / steps, seconds)


def some_time() -> Callable[[], bool]:
    end = time.perf_counter() + BARE_SECONDS
    return lambda: time.perf_counter() >= end


def write_blob(names: list[str], weights: list[torch.Tensor]) -> str:
    """Writes a blob as at the end of an epoch. Returns the id of the span that has the file."""
    pairs = list(zip(names, weights, strict=True))
    captured = _core.snapshots.capture([("", pairs)], False, None, set(), True, 1, list, list)
    with _core.scope("blobs"):  # makes sure that the thread has a next number
        sequence = _core.scopes.next_sequence()
        with _core.scope("blob") as span:
            _core.snapshots.submit([(captured, {})], sequence, None, None, "full", False)
    assert span is not None and span.id is not None
    return span.id


def main() -> None:
    torch.set_num_threads(1)
    handle = ci.profile(frameworks=[], flush_interval=3600)
    out = os.environ["CIRRON_OUTPUT_DIR"]
    weights = [torch.randn(BYTES // TENSORS // 4) for _ in range(TENSORS)]
    names = [f"layer{i}.weight" for i in range(TENSORS)]
    step = make_step()
    train(step, some_time())
    clocks, cpus, noises, copies, writings, shares, bare = [], [], [], [], [], [], []
    for number in range(1, int(sys.argv[1]) + 1):
        before = train(step, some_time())
        start = time.perf_counter()
        span = write_blob(names, weights)
        copies.append(time.perf_counter() - start)
        others = time.process_time() - time.thread_time()

        def done(count: int = number) -> bool:
            found = handle.health()
            if found["blob_drop_count"]:
                sys.exit("1 GB of disk and 4 GB of free memory are needed")
            return bool(found["blob_count"] >= count)

        during = train(step, done)
        others = time.process_time() - time.thread_time() - others
        after = train(step, some_time())
        clocks.append(during.clock / ((before.clock + after.clock) / 2) - 1)
        cpus.append(during.cpu / ((before.cpu + after.cpu) / 2) - 1)
        noises.append(abs(before.clock / after.clock - 1))
        writings.append(during.seconds)
        shares.append(others / during.seconds)
        bare.append(min(before.clock, after.clock))
        shutil.rmtree(f"{out}/snapshots/{span}")
    found = {
        "overhead": median(clocks),
        "noise": median(noises),
        "cpu_overhead": median(cpus),
        "writer_share": median(shares),
        "bare_us": median(bare) * 1e6,
        "copy_seconds": median(copies),
        "writing_seconds": median(writings),
    }
    print(json.dumps(found))


main()
