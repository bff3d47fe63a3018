"""Epochs that end unexpectedly have gradients if an optimizer has stepped."""

import gc

import cirron as ci
import pytest
from snapshot_records import gradients, places, records, same

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch_loops import make_loader, make_model  # noqa: E402

NAMES = ["0.weight.grad", "0.bias.grad", "2.weight.grad", "2.bias.grad"]


def start(**options):
    ci.shutdown()
    torch.manual_seed(0)
    ci.profile(frameworks=["torch"], flush_interval=3600, **options)


@pytest.fixture(autouse=True)
def session(fresh_process):
    start()


class StopError(Exception):
    pass


class Thrower:
    """Drops its gradients after every step, and remembers what they were."""

    def __init__(self, to_none=True):
        self.model = make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.to_none = to_none
        self.used = []

    def step(self, x, y):
        mse_loss(self.model(x), y).backward()
        self.used.append([p.grad.clone() for p in self.model.parameters()])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.to_none)


def by_break(thrower, steps):
    for i, (x, y) in enumerate(make_loader(50)):
        thrower.step(x, y)
        if i == steps - 1:
            break


def by_return(thrower, steps):
    def train():
        for i, (x, y) in enumerate(make_loader(50)):
            thrower.step(x, y)
            if i == steps - 1:
                return i
        return None

    train()


def by_exception(thrower, steps):
    def train():
        for i, (x, y) in enumerate(make_loader(50)):
            thrower.step(x, y)
            if i == steps - 1:
                raise StopError

    with pytest.raises(StopError):
        train()
    gc.collect()


def by_limit(thrower, steps):
    for _ in ci.epochs(range(1)):
        batches = iter(make_loader(50))
        for _ in range(steps):
            thrower.step(*next(batches))


def by_the_end_of_the_session(thrower, steps):
    batches = iter(make_loader(50))
    for _ in range(steps):
        thrower.step(*next(batches))
    ci.shutdown()


def check(thrower, epoch, steps):
    """They are those of one of its steps, and the record says of which."""
    assert list(gradients(epoch)) == NAMES
    (attrs,) = {tuple(record["attrs"].items()) for record in gradients(epoch).values()}
    number = dict(attrs)["optimizer_step"]
    assert dict(attrs).get("last", True) == (number == steps)
    used = thrower.used[-steps:][number - 1]
    assert all(same(epoch[name], value) for name, value in zip(NAMES, used, strict=True))


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize(
    "cut", [by_break, by_return, by_exception, by_limit, by_the_end_of_the_session]
)
def test_an_epoch_that_is_cut_short(spool_dir, cut, steps, to_none):
    thrower = Thrower(to_none)
    cut(thrower, steps)
    (epoch,) = records(spool_dir)
    check(thrower, epoch, steps)


def test_shorter_than_the_one_before(spool_dir):
    thrower = Thrower()
    for steps in (10, 3, 5):
        by_break(thrower, steps)
    epochs = records(spool_dir)
    del thrower.used[:10]
    check(thrower, epochs[2], 5)
    del thrower.used[-5:]
    check(thrower, epochs[1], 3)


def test_an_epoch_of_many_steps_has_a_late_one(spool_dir):
    """As time passes, the newest gradients that were cheap enough to measure count."""
    thrower = Thrower()
    for i, (x, y) in enumerate(make_loader(3000)):
        thrower.step(x, y)
        thrower.used.clear()
        if i == 2500:
            break
    (epoch,) = records(spool_dir)
    assert epoch[NAMES[0]]["attrs"]["optimizer_step"] > 1
    assert places(epoch) == {"optimizer_step"}


@pytest.mark.parametrize("to_none", [True, False])
def test_the_optimizer_is_gone_by_then(spool_dir, to_none):
    def train():
        thrower = Thrower(to_none)
        batches = iter(make_loader(50))
        for _ in range(5):
            thrower.step(*next(batches))
        return thrower.used

    for _ in ci.epochs(range(1)):
        used = train()
        gc.collect()
    (epoch,) = records(spool_dir)
    number = epoch[NAMES[0]]["attrs"]["optimizer_step"]
    assert same(epoch[NAMES[0]], used[number - 1][0])


def test_what_is_left_is_newer_than_what_was_measured(spool_dir):
    thrower = Thrower()
    thrower.optimizer.zero_grad = lambda set_to_none=True: None
    by_break(thrower, 5)
    (epoch,) = records(spool_dir)
    assert places(epoch) == {"epoch_end"}
    assert same(epoch[NAMES[0]], thrower.used[-1][0])


def test_two_optimizers_in_the_very_first_epoch(spool_dir):
    """When the first of them steps, it is not known that there are two models."""
    throwers = [Thrower(), Thrower()]
    for i, (x, y) in enumerate(make_loader(50)):
        for thrower in throwers:
            thrower.step(x, y)
        if i == 3:
            break
    (epoch,) = records(spool_dir)
    assert set(gradients(epoch)) == {
        f"{space}.{name}" for space in ("Sequential", "Sequential_1") for name in NAMES
    }
    for space, thrower in zip(("Sequential", "Sequential_1"), throwers, strict=True):
        record = epoch[f"{space}.{NAMES[0]}"]
        assert same(record, thrower.used[record["attrs"]["optimizer_step"] - 1][0])


def test_a_file_has_only_the_last(spool_dir):
    start(snapshots="full")
    thrower = Thrower()
    by_break(thrower, 3)
    (epoch,) = records(spool_dir)
    assert epoch["0.weight"]["blob_uri"] is not None
    assert epoch[NAMES[0]]["blob_uri"] is None
    assert epoch[NAMES[0]]["stats"] is not None


def test_optimizers_that_step_during_backward(spool_dir):
    """One for each parameter, as in programs that do not keep gradients."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(50)))
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        for i, (x, _) in enumerate(make_loader(50)):
            model(x).square().mean().backward()
            if i == 2:
                break
    epochs = records(spool_dir)
    assert [len(epoch) for epoch in epochs] == [200, 200]
