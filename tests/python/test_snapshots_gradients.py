"""Gradients: taken where the last optimizer step of an epoch uses them, otherwise at its end."""

import gc
import weakref

import cirron as ci
import pytest
from snapshot_records import gradients, norm, places, records, same

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402
from torch_loops import Loop, make_loader, make_model  # noqa: E402

NAMES = ["0.weight.grad", "0.bias.grad", "2.weight.grad", "2.bias.grad"]
AT_STEP, AT_END = {"optimizer_step"}, {"epoch_end"}


@pytest.fixture(autouse=True)
def session(fresh_process):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], flush_interval=3600)


class Zeroing(Loop):
    """Drops the gradients after every step, and remembers what the last ones were."""

    def __init__(self, batches=2, to_none=True, every=1, **options):
        super().__init__(batches, **options)
        self.to_none = to_none
        self.every = every
        self.seen = 0
        self.used = []  # at every optimizer step

    def step(self, x, y):
        mse_loss(self.model(x), y).backward()
        self.seen += 1
        if self.seen % self.every == 0:
            self.used.append([p.grad.clone() for p in self.model.parameters()])
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=self.to_none)

    def epoch(self):
        self.seen = 0
        super().epoch()
        self.last = self.used[-1]


def are(epoch, values):
    return all(same(epoch[name], value) for name, value in zip(NAMES, values, strict=True))


@pytest.mark.parametrize("to_none", [True, False])
def test_they_are_thrown_away_after_the_step(spool_dir, to_none):
    loop = Zeroing(3, to_none)
    loop.epoch()
    first = loop.last
    loop.epoch()
    epochs = records(spool_dir)
    assert [list(gradients(epoch)) for epoch in epochs] == [NAMES, NAMES]
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    assert are(epochs[0], first)
    assert are(epochs[1], loop.last)
    assert epochs[0][NAMES[0]]["attrs"]["optimizer_step"] == 3


def test_they_are_clipped_by_then(spool_dir):
    loop = Loop(2)
    loop.model.train()
    for x, y in loop.loader:
        loop.optimizer.zero_grad()
        (1000 * mse_loss(loop.model(x), y)).backward()
        nn.utils.clip_grad_norm_(loop.model.parameters(), 1.0)
        loop.optimizer.step()
    (epoch,) = records(spool_dir)
    assert sum(norm(record) ** 2 for record in gradients(epoch).values()) == pytest.approx(1.0)


def test_accumulation(spool_dir):
    loop = Zeroing(6, every=3)
    loop.epoch()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert are(epoch, loop.last)
    assert epoch[NAMES[0]]["attrs"]["optimizer_step"] == 2


def test_accumulation_with_a_remainder_is_learnt(spool_dir):
    loop = Zeroing(5, every=2)
    loop.epoch()
    rest = [parameter.grad.clone() for parameter in loop.model.parameters()]
    loop.optimizer.zero_grad()
    loop.epoch()
    second = loop.last
    loop.optimizer.zero_grad()
    loop.epoch()
    epochs = records(spool_dir)
    # In the first epoch it is not known that no step will follow; these are the remainder's.
    assert [places(epoch) for epoch in epochs] == [AT_END, AT_STEP, AT_STEP]
    assert are(epochs[0], rest)
    assert are(epochs[1], second)
    assert are(epochs[2], loop.last)


def test_a_loader_of_unknown_length_is_learnt(spool_dir):
    class Stream(IterableDataset):
        def __iter__(self):
            for _ in range(3):
                yield torch.randn(4), torch.randn(1)

    loop = Zeroing()
    loop.loader = DataLoader(Stream(), batch_size=1)
    loop.epoch()
    loop.epoch()
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    number = epochs[0][NAMES[0]]["attrs"]["optimizer_step"]  # one that was cheap to measure
    assert are(epochs[0], loop.used[number - 1])
    assert ("last" in epochs[0][NAMES[0]]["attrs"]) == (number != 3)
    assert are(epochs[1], loop.last)
    assert "last" not in epochs[1][NAMES[0]]["attrs"]


def test_batches_of_the_api_have_a_length(spool_dir):
    loop = Zeroing()
    data = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(3)]
    for _ in ci.epochs(range(2)):
        for x, y in ci.batches(data):
            loop.step(x, y)
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    assert are(epochs[0], loop.used[2])
    assert are(epochs[1], loop.used[5])


def test_batches_of_the_api_over_a_loader(spool_dir):
    loop = Zeroing(3)
    for _ in ci.epochs(range(2)):
        for x, y in ci.batches(loop.loader):
            loop.step(x, y)
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    assert are(epochs[1], loop.used[5])


def test_a_loop_without_a_loader(spool_dir):
    ci.shutdown()
    ci.profile(config={"torch": {"epoch_steps": 4}}, frameworks=["torch"], flush_interval=3600)
    loop = Zeroing()
    for _ in range(9):
        loop.step(torch.randn(2, 4), torch.randn(2, 1))
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP, AT_STEP]
    assert are(epochs[0], loop.used[3])
    assert are(epochs[1], loop.used[7])
    assert are(epochs[2], loop.used[8])


def test_they_are_read_at_the_end_where_they_are_left_alone(spool_dir):
    loop = Loop(3)
    for x, y in loop.loader:
        loop.step(x, y)
        break
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_END
    assert same(epoch["0.weight.grad"], loop.model[0].weight.grad)


def test_none_at_all(spool_dir):
    loop = Loop(2)
    ci.watch(loop.model)
    with ci.scope("epoch"):
        for x, _ in loop.loader:
            loop.model(x)
    (epoch,) = records(spool_dir)
    assert gradients(epoch) == {}


def test_frozen_parameters_have_none(spool_dir):
    loop = Zeroing(2)
    loop.used = [[]]
    loop.model[0].requires_grad_(False)
    loop.step = lambda x, y: Loop.step(loop, x, y)
    loop.epoch()
    (epoch,) = records(spool_dir)
    assert list(gradients(epoch)) == NAMES[2:]


def test_each_optimizer_of_two_takes_its_own(spool_dir):
    generator, critic = make_model(), nn.Sequential(nn.Linear(1, 3), nn.Linear(3, 1))
    ci.watch(generator, name="generator")
    ci.watch(critic, name="critic")
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (generator, critic)]
    used = {}
    for x, y in make_loader(3):
        critic(y).mean().sub(critic(generator(x)).mean()).backward()
        used["critic.0.weight.grad"] = critic[0].weight.grad.clone()
        optimizers[1].step()
        optimizers[1].zero_grad()
        optimizers[0].zero_grad()
        critic(generator(x)).mean().backward()
        used["generator.0.weight.grad"] = generator[0].weight.grad.clone()
        optimizers[0].step()
        optimizers[0].zero_grad()
        optimizers[1].zero_grad()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert len(gradients(epoch)) == 8
    assert all(same(epoch[name], value) for name, value in used.items())


def test_an_optimizer_that_steps_now_and_then_is_learnt(spool_dir):
    models = [make_model(), make_model()]
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in models]
    for number, model in enumerate(models):
        ci.watch(model, name=f"m{number}")
    loader = make_loader(5)
    last = None
    for _ in range(2):
        for i, (x, y) in enumerate(loader):
            for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                if number == 1 and i % 2 == 0:
                    continue
                mse_loss(model(x), y).backward()
                if number == 1:
                    last = model[0].weight.grad.clone()
                optimizer.step()
                optimizer.zero_grad()
    epochs = records(spool_dir)
    assert "last" not in epochs[1]["m1.0.weight.grad"]["attrs"]
    assert same(epochs[1]["m1.0.weight.grad"], last)
    assert all("m0.0.weight.grad" in epoch for epoch in epochs)


def test_a_loop_inside_the_last_batch_costs_a_few_captures_only(spool_dir, monkeypatch):
    from sonde import _core

    calls = []
    real = _core.snapshots.capture
    monkeypatch.setattr(_core.snapshots, "capture", lambda *a: calls.append(a) or real(*a))
    loop = Loop(1)
    for _ in range(2):
        for x, y in loop.loader:
            for _ in range(50):
                loop.step(x, y)
    epochs = records(spool_dir)
    assert len(calls) < 2 * 50 / 2
    assert epochs[1][NAMES[0]]["attrs"]["optimizer_step"] == 50


def test_mixed_precision_that_skips_the_last_step(spool_dir):
    loop = Loop(2)
    scaler = torch.amp.GradScaler("cpu")
    loop.model.train()
    for i, (x, y) in enumerate(loop.loader):
        loop.optimizer.zero_grad()
        loss = mse_loss(loop.model(x), y) * (float("inf") if i == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(loop.optimizer)
        scaler.update()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_END
    assert epoch[NAMES[0]]["stats"]["inf_count"] + epoch[NAMES[0]]["stats"]["nan_count"] > 0


def test_mixed_precision_has_them_unscaled(spool_dir):
    loop = Loop(1)
    scaler = torch.amp.GradScaler("cpu")
    ((x, y),) = loop.loader
    mse_loss(loop.model(x), y).backward()
    expected = [parameter.grad.clone() for parameter in loop.model.parameters()]
    ci.shutdown()
    ci.profile(frameworks=["torch"], flush_interval=3600)
    for x, y in loop.loader:
        loop.optimizer.zero_grad()
        scaler.scale(mse_loss(loop.model(x), y)).backward()
        scaler.step(loop.optimizer)
        scaler.update()
        loop.optimizer.zero_grad()
    epoch = records(spool_dir)[-1]
    assert places(epoch) == AT_STEP
    for name, value in zip(NAMES, expected, strict=True):
        assert norm(epoch[name]) == pytest.approx(value.norm().item(), rel=1e-4, abs=1e-6)


def test_a_closure_makes_them_inside_the_step(spool_dir):
    loop = Loop(2)
    seen = []

    def step(x, y):
        def closure():
            loop.optimizer.zero_grad()
            loss = mse_loss(loop.model(x), y)
            loss.backward()
            seen.append(loop.model[0].weight.grad.clone())
            return loss

        loop.optimizer.step(closure)
        loop.optimizer.zero_grad()

    loop.step = step
    loop.epoch()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert same(epoch[NAMES[0]], seen[-1])


def test_no_gradient_is_kept_alive(spool_dir):
    loop = Zeroing(2)
    kept = []
    optimize = loop.optimizer.step

    def step():
        kept.extend(weakref.ref(parameter.grad) for parameter in loop.model.parameters())
        optimize()

    loop.optimizer.step = step
    loop.epoch()
    gc.collect()
    assert kept
    assert all(reference() is None for reference in kept)
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP


def test_sparse_gradients_of_an_embedding(spool_dir):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 3, sparse=True)

        def forward(self, x):
            return self.table(x).sum()

    model = Bag()
    optimizer = torch.optim.SparseAdam(model.parameters())
    for x in DataLoader(torch.tensor([1, 1, 4, 7]), batch_size=2):
        model(x).backward()
        used = model.table.weight.grad.coalesce()
        optimizer.step()
        optimizer.zero_grad()
    (epoch,) = records(spool_dir)
    record = epoch["table.weight.grad"]
    assert record["attrs"] == {
        "layout": "sparse_coo",
        "stored": used.values().numel(),
        "taken": "optimizer_step",
        "optimizer_step": 2,
    }
    assert record["shape"] == [10, 3]
    assert same(record, used.values())


def test_validation_between_the_steps_changes_nothing(spool_dir):
    loop = Zeroing(3)
    other = make_loader(1)
    loop.model.train()
    for x, y in loop.loader:
        loop.step(x, y)
        loop.evaluate(other)
        loop.model.train()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert are(epoch, loop.used[-1])


def test_weights_and_gradients_of_one_epoch_come_in_order(spool_dir):
    loop = Zeroing(2)
    loop.epoch()
    (epoch,) = records(spool_dir)
    assert list(epoch) == [name.removesuffix(".grad") for name in NAMES] + NAMES


def test_another_thread_ends_the_session(spool_dir):
    from threading import Thread

    loop = Zeroing(2)
    batches = iter(loop.loader)
    for x, y in (next(batches), next(batches)):
        loop.step(x, y)
    thread = Thread(target=ci.shutdown)
    thread.start()
    thread.join()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert are(epoch, loop.used[-1])
