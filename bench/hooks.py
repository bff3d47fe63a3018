"""What the PyTorch hooks cost: whole training loops with and without them, and the hooks alone.

Blocks of the bare and of the hooked loop alternate (bare, hooked, hooked, bare). The hooked loop
takes snapshots at the end of each epoch, as by default. The overhead is the median over the rounds;
the difference between two bare blocks of a round is its noise. On a shared machine the noise is
larger than the overhead. So the host time of the hooks is also measured alone: in a loop whose
model, optimizer and dataset do nothing, the whole difference is due to the hooks.

    hooks.py LOOP ROUNDS [DEVICE]      LOOP: mlp, convnet, transformer, nothing, submodules
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median

import cirron as ci
import torch
from models import NoOptimizer, seconds
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SUBMODULES = 400


class Identity(nn.Module):
    def forward(self, x):
        return x


class Nothing(nn.Module):
    """A model with a parameter, whose forward does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x


class Constant:
    """A dataset of one item."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return 0


def transformer(layers: int, width: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def convnet() -> nn.Module:
    def block(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(3, 32), *block(32, 64), *block(64, 128), nn.Flatten(), nn.Linear(128 * 16, 10)
    )


def training(name: str, device: str) -> tuple[Callable[[], None], int]:
    """A function that runs some steps, and how many they are."""
    big = device != "cpu"
    if name == "mlp":
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
        steps, x = 64, torch.randn(8 * 64, 32)
        y, batch, lossf = torch.randint(0, 4, (8 * 64,)), 8, nn.CrossEntropyLoss()
    elif name == "convnet":
        model, steps, batch = convnet(), 4, 32
        x, y = torch.randn(steps * batch, 3, 32, 32), torch.randint(0, 10, (steps * batch,))
        lossf = nn.CrossEntropyLoss()
    else:
        model = transformer(8, 512) if big else transformer(6, 256)
        steps, batch, length, width = (16, 16, 256, 512) if big else (2, 8, 64, 256)
        x = torch.randn(steps * batch, length, width)
        y, lossf = x.clone(), nn.MSELoss()
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=batch)

    def run() -> None:
        for inputs, targets in loader:
            if big:
                inputs, targets = inputs.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = lossf(model(inputs), targets)
            loss.backward()
            optimizer.step()
        if big:
            torch.cuda.synchronize()

    return run, steps


def nothing(steps: int = 2000) -> tuple[Callable[[], None], int]:
    model = Nothing()
    optimizer = NoOptimizer(model.parameters())
    loader = DataLoader(Constant(steps), batch_size=None)
    loss = torch.zeros(1, requires_grad=True).sum()

    def run() -> None:
        for item in loader:
            model(item)
            loss.backward(retain_graph=True)
            optimizer.step()

    return run, steps


def submodules() -> tuple[Callable[[], None], int]:
    model = nn.Sequential(Nothing(), *(Identity() for _ in range(SUBMODULES - 1)))

    def run() -> None:
        for _ in range(100):
            model(0)

    return run, 100 * SUBMODULES


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    torch.manual_seed(0)
    torch.set_num_threads(1)
    alone = {"nothing": nothing, "submodules": submodules}
    run, steps = alone[name]() if name in alone else training(name, device)
    for _ in range(5):
        run()
    if device != "cpu":
        torch.zeros(1, device=device)  # from here on there are events to record
    before, during, after, alone_bare, alone_hooked = [], [], [], [], []
    nothing_run, nothing_steps = nothing(200)
    nothing_run()
    for _ in range(rounds):
        # One session per loop, so that only its own model is captured.
        for work, first, hooked, last in (
            (run, before, during, after),
            (nothing_run, alone_bare, alone_hooked, alone_bare),
        ):
            first.append(seconds(work))
            ci.profile(frameworks=["torch"])
            work()
            hooked.append((seconds(work) + seconds(work)) / 2)
            ci.shutdown()
            work()
            last.append(seconds(work))
    bare = [(a + b) / 2 for a, b in zip(before, after, strict=True)]
    pairs = list(zip(bare, during, strict=True))
    step = median(bare) / steps
    found = {
        "bare_us": step * 1e6,
        "hooked_us": median(during) / steps * 1e6,
        "extra_us": median(h - b for b, h in pairs) / steps * 1e6,
        "overhead": median(h / b for b, h in pairs) - 1,
        # Half of the rounds differ by more than this, with nothing changed.
        "noise": median(abs(a / b - 1) for a, b in zip(before, after, strict=True)),
        # The host time of the hooks alone, measured in the same minutes, over that of the step.
        "counted": (median(alone_hooked) - median(alone_bare)) / nothing_steps / step,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
