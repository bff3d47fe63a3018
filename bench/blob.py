"""What writing a blob does to training: the time of a step while 1 GB is written, and without.

A round is some steps without a blob, steps for as long as one is being written, and steps without
one again, each timed by itself; the two parts around are what the middle is compared with, and
what they differ by is the noise. The copy, which the call makes, is timed apart. One thread trains:
the writer has a core to itself unless COLLIDE is given, which puts both on one.

    blob.py ROUNDS [COLLIDE]
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from statistics import mean, median

import cirron as ci
import torch
from sonde import _core
from torch import nn

BYTES = 10**9
TENSORS = 50
BARE_SECONDS = 1.0


def make_step():
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


def timed(step, until) -> list[float]:
    times: list[float] = []
    clock = time.perf_counter
    while not until():
        for _ in range(20):
            start = clock()
            step()
            times.append(clock() - start)
    return times


def for_seconds(seconds: float):
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def main() -> None:
    rounds = int(sys.argv[1])
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    handle = ci.profile(frameworks=[])
    out = os.environ["CIRRON_OUTPUT_DIR"]
    weights = [torch.randn(BYTES // TENSORS // 4) for _ in range(TENSORS)]
    names = [f"layer{i}.weight" for i in range(TENSORS)]
    step = make_step()
    timed(step, for_seconds(1))
    ratios, middle, noises, copies, writing_seconds, bare_steps = [], [], [], [], [], []
    for round_ in range(rounds):
        before = timed(step, for_seconds(BARE_SECONDS))
        start = time.perf_counter()
        span = _core.write_blob(names, weights, "weights")
        copies.append(time.perf_counter() - start)

        def written(done=round_ + 1) -> bool:
            return handle.health()["blob_count"] >= done or handle.health()["blob_drop_count"] > 0

        during = timed(step, written)
        writing_seconds.append(time.perf_counter() - start - copies[-1])
        after = timed(step, for_seconds(BARE_SECONDS))
        if handle.health()["blob_drop_count"]:
            sys.exit(
                "the blob could not be written: 1 GB of disk and 4 GB of free memory are needed"
            )
        bare = mean(before + after)
        bare_steps.append(bare)
        ratios.append(mean(during) / bare)
        middle.append(median(during) / median(before + after))
        noises.append(abs(mean(before) / mean(after) - 1))
        shutil.rmtree(f"{out}/snapshots/{span}")
    found = {
        "overhead": median(ratios) - 1,
        "noise": median(noises),
        "bare_us": median(bare_steps) * 1e6,
        "copy_seconds": median(copies),
        "writing_seconds": median(writing_seconds),
        "middle": median(middle) - 1,
        "all": [round(r - 1, 4) for r in ratios],
    }
    print(json.dumps(found))


main()
