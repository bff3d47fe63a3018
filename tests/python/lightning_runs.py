"""Small Lightning runs, and the trees they leave."""

import cirron as ci
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from trees import sketch

PACKAGES = ["lightning.pytorch", "pytorch_lightning"]
TRAIN = "forward backward optimizer_step"
STEP = f"(data_load {TRAIN})"
CHECK = "(data_load forward:eval)"


def make_module(pl, **methods):
    """A module that logs nothing; methods may be replaced."""

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

        def loss(self, batch):
            x, y = batch
            return mse_loss(self.net(x), y)

        def training_step(self, batch, batch_idx):
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            self.loss(batch)

        def test_step(self, batch, batch_idx):
            self.loss(batch)

        def predict_step(self, batch, batch_idx):
            return self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return type("Module", (Module,), methods)()


def make_trainer(pl, **options):
    quiet = {
        "max_epochs": 1,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return pl.Trainer(**{**quiet, **options})


def make_loader(batches=2, **options):
    data = TensorDataset(torch.randn(2 * batches, 4), torch.randn(2 * batches, 1))
    return DataLoader(data, batch_size=2, **options)


class Stream(IterableDataset):
    """A dataset without a length: Lightning fetches one batch ahead."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter([(torch.randn(4), torch.randn(1)) for _ in range(2 * self.batches)])


def steps(*numbers, inside=STEP):
    return " ".join(f"step[{number}]{inside}" for number in numbers)


def values(span):
    return {mark["name"]: mark["kind"] for mark in span["marks"]}


def plain_loop():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in make_loader(1):
        mse_loss(model(x), y).backward()
        optimizer.step()


def profile(frameworks=("lightning", "torch")):
    return ci.profile(output="none", frameworks=list(frameworks), flush_interval=3600)


def assert_nothing_is_left(before):
    """Nothing is open, and the torch hook records the program's own loops again."""
    plain_loop()
    with ci.scope("after"):
        pass
    found = sketch()
    assert found == f"{before} epoch[0]({steps(0)}) after".lstrip(), found
    assert "..." not in found


def callbacks_of(trainer):
    return [callback for callback in trainer.callbacks if "Cirron" in type(callback).__name__]
