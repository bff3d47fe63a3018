"""Loops whose steps stop being alike, and so leave the fast path of engine/hook/plain.h."""

import pytest
from trees import sketch

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")

STEP = "data_load forward backward optimizer_step"


def loader(batches):
    return DataLoader(TensorDataset(torch.ones(batches, 4)))


class Model:
    """A module, or only a parameter."""

    def __init__(self, module=True):
        self.module = nn.Linear(4, 1) if module else None
        self.weight = self.module.weight if module else torch.zeros(1, 4, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1)

    def __call__(self, x):
        return x @ self.weight.T if self.module is None else self.module(x)

    def step(self, x):
        self.optimizer.zero_grad()
        self(x).sum().backward()
        self.optimizer.step()


def test_batches_that_are_left_without_a_module_have_a_step_each():
    model, waiting = Model(module=False), []
    for (x,) in loader(6):
        waiting.append(x)
        if len(waiting) > 2:
            model.step(waiting.pop(0))
    for x in waiting:
        model.step(x)
    tree = sketch().replace("...", "")
    assert tree.startswith(
        "epoch[0](step[0](data_load data_load data_load backward optimizer_step)"
    )
    assert tree.endswith("step[4](backward optimizer_step) step[5](backward optimizer_step))")


def test_a_step_ends_somewhere_though_its_batch_is_used_for_ever():
    model = Model(module=False)
    for (x,) in loader(3):
        model.step(x)
    for (x,) in loader(1):
        for _ in range(40):
            model.step(x)
    assert 2 <= sketch().split("epoch[1]")[1].count("step[") < 40


def test_looks_with_gradients_off_at_batches_of_the_training():
    model, batches = Model(), iter(loader(7))
    for i in range(4):
        model.step(next(batches)[0])
        if i == 2:
            with torch.no_grad():
                model(next(batches)[0])
                model(next(batches)[0])
    check = "validation(data_load forward data_load forward)"
    assert f"step[2]({STEP}) {check} step[3]" in sketch()


def test_forwards_behind_a_batch_that_was_fetched_ahead_and_never_used():
    model = Model()
    for _ in range(2):
        batches = iter(loader(5))
        (ahead,) = next(batches)
        for _ in range(4):
            x, (ahead,) = ahead, next(batches)
            model.step(x)
        next(batches, None)
        for _ in range(3):
            model(torch.ones(1, 4))
    first = sketch().split(" epoch[1]")[0]
    assert first.endswith(f"step[3]({STEP}) validation(forward forward forward))")
