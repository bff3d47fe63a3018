"""Small real PyTorch loops for the tests of the hooks."""

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

STEP = "(data_load forward backward optimizer_step)"


def make_model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def make_loader(batches=2, **options):
    data = TensorDataset(torch.randn(2 * batches, 4), torch.randn(2 * batches, 1))
    return DataLoader(data, batch_size=2, **options)


class Loop:
    def __init__(self, batches=2, **options):
        self.model = make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loader = make_loader(batches, **options)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def epoch(self):
        self.model.train()
        for x, y in self.loader:
            self.step(x, y)

    def evaluate(self, loader=None):
        self.model.eval()
        with torch.no_grad():
            for x, _ in loader or self.loader:
                self.model(x)


class Lookahead(torch.optim.Optimizer):
    """An optimizer around another."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        return self.inner.step()


def steps(count, inside=STEP, first=0):
    return " ".join(f"step[{i}]{inside}" for i in range(first, first + count))
