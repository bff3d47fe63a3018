"""Shapes and an optimizer that the benches of training and of snapshots share."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def resnet50_shapes() -> list[tuple[int, ...]]:
    """The 161 parameters of torchvision's model, in their order."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, inputs, 1), (width, width, 3), (4 * width, width, 1)]
            if block == 0:
                convolutions.append((4 * width, inputs, 1))
            for outputs, channels, kernel in convolutions:
                shapes += [(outputs, channels, kernel, kernel), (outputs,), (outputs,)]
            inputs = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


class NoOptimizer(torch.optim.Optimizer):
    """Has parameters and steps, and does nothing."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, {})

    def step(self, closure=None):
        return None


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
