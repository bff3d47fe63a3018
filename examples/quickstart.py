"""Trains a small PyTorch model whose dataset is too slow, with the profiler on.

The profiler needs one call; the training loop does not know about it. The dataset stalls at every
eighth batch. The printed tree shows where the time went, and the same is on disk for `sonde trace`.

    python examples/quickstart.py [--path .cirron]
"""

import argparse
import time

import cirron as ci
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCHES, BATCH_SIZE = 3, 16, 32
STALL_EVERY, STALL_SECONDS = 8, 0.12


class TwoMoons(Dataset):
    """Points on two half circles; reading some of them takes a long time."""

    def __init__(self, batches, stalls):
        self.length = batches * BATCH_SIZE
        self.stalls = stalls

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.stalls and index % (STALL_EVERY * BATCH_SIZE) == STALL_EVERY * BATCH_SIZE - 1:
            time.sleep(STALL_SECONDS)  # as if a file were not in the cache
        label = index % 2
        angle = torch.tensor(index * 0.7) % 3.1416
        point = torch.stack([torch.cos(angle), torch.sin(angle)])
        if label:
            point = torch.tensor([1.0, 0.4]) - point
        return point + 0.1 * torch.randn(2), label


def train(model, optimizer, loader):
    model.train()
    for points, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        ci.mark("loss", loss)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(points).argmax(1) == labels).sum().item() for points, labels in loader)
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default=".cirron", help="output directory (default: .cirron)")
    path = parser.parse_args().path

    ci.profile(path=path)

    torch.manual_seed(0)
    torch.set_num_threads(1)  # a model this small does not profit from more
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model.append(nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    training = DataLoader(TwoMoons(BATCHES, stalls=True), batch_size=BATCH_SIZE)
    held_out = DataLoader(TwoMoons(2, stalls=False), batch_size=BATCH_SIZE)
    for epoch in range(EPOCHS):
        train(model, optimizer, training)
        print(f"epoch {epoch}: accuracy {accuracy(model, held_out):.2f}")

    print("\nthe last spans that closed:")
    ci.trace(last=12)
    ci.shutdown()

    spans = ci.trace(format="dict", name="data_load")["roots"]
    slow = [span for span in spans if span["wall_us"] > 100_000]
    print(f"\n{len(slow)} of {len(spans)} data_load spans took over 100 ms")
    print(f"everything is in {path}; read it with: sonde trace {path}")


if __name__ == "__main__":
    main()
