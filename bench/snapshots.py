"""What the statistics of all weights of a model cost on the CPU, beside one torch.sum of them.

`boundary` is what a user pays: the time from the end of a DataLoader to its next beginning, with a
watched model, on the given number of threads. Rounds alternate with the sum. `measure` is only our
reading of the tensors and the statistics, on one thread and on the given number. It also times the
sum on one thread and on that number, which shows how much bandwidth more cores get.

    snapshots.py boundary|measure resnet50|small ROUNDS [THREADS]
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from statistics import median

import cirron as ci
import torch
from models import NoOptimizer, resnet50_shapes, seconds
from torch import nn
from torch.utils.data import DataLoader

SMALL, SMALL_SIZE = 300, 1000


class Weights(nn.Module):
    """Parameters of these shapes, in one piece of memory, so that one sum reads them all."""

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        super().__init__()
        sizes = [math.prod(shape) for shape in shapes]
        self.flat = torch.randn(sum(sizes)) * 0.05
        for number, (part, shape) in enumerate(zip(self.flat.split(sizes), shapes, strict=True)):
            self.register_parameter(f"weight_{number}", nn.Parameter(part.view(shape)))

    def forward(self, x):
        return x


def make(name: str) -> Weights:
    if name == "small":
        return Weights([(SMALL_SIZE,)] * SMALL)
    model = Weights(resnet50_shapes())
    assert (len(list(model.parameters())), model.flat.numel()) == (161, 25_557_032)
    return model


def records_written() -> int:
    ci.flush()
    files = Path(os.environ["CIRRON_OUTPUT_DIR"]).glob("spool/*.json")
    return sum(file.read_text().count('"tensor_name"') for file in files)


def boundary(model: Weights, rounds: int, threads: int) -> dict[str, float]:
    # 0: the default; the reference has no such option.
    options = {"snapshots": {"threads": threads}} if threads else None
    ci.profile(frameworks=["torch"], config=options)
    ci.watch(model)
    optimizer = NoOptimizer(model.parameters())
    loader = DataLoader([0])
    spent, sums = [], []
    batches = iter(loader)
    for _ in range(rounds + 1):
        model(next(batches))
        optimizer.step()
        sums.append(seconds(model.flat.sum))
        start = time.perf_counter()
        next(batches, None)
        batches = iter(loader)
        spent.append(time.perf_counter() - start)
    count = len(list(model.parameters()))
    if (written := records_written()) < rounds * count:
        sys.exit(f"{written} records of {rounds} x {count} tensors: not every epoch was measured")
    return {"snapshot": median(spent), "sum": median(sums)}


def measured(model: Weights, rounds: int, threads: int) -> dict[str, float]:
    from sonde import _testing

    tensors = list(model.parameters())
    one, several, sums = [], [], {1: [], threads: []}
    for _ in range(rounds):
        one.append(seconds(lambda: _testing.measure_tensors(tensors, describe=False)))
        several.append(seconds(lambda: _testing.measure_tensors(tensors, threads, describe=False)))
    for _ in range(rounds):
        for count, spent in sums.items():
            torch.set_num_threads(count)
            spent.append(seconds(model.flat.sum))
    sum_speedup = median(sums[1]) / median(sums[threads])
    return {"one": median(one), "threads": median(several), "sum_speedup": sum_speedup}


def main() -> None:
    way, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    torch.set_num_threads(1)
    model = make(name)
    measure = boundary if way == "boundary" else measured
    print(json.dumps(measure(model, rounds, threads)))


main()
