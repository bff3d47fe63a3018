"""Which epoch, which optimizer and which thread a gradient belongs to."""

from pathlib import Path
from threading import Event, Thread, get_ident
from urllib.parse import unquote, urlparse

import cirron as ci
import pytest
from snapshot_records import gradients, norm, places, records, same, weights

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402
from torch_loops import Loop, make_loader, make_model  # noqa: E402

NAMES = ["0.weight.grad", "0.bias.grad", "2.weight.grad", "2.bias.grad"]
AT_STEP, AT_END = {"optimizer_step"}, {"epoch_end"}


@pytest.fixture(autouse=True)
def session(fresh_process):
    start()


def start(**options):
    ci.shutdown()
    torch.manual_seed(0)
    ci.profile(frameworks=["torch"], flush_interval=3600, **options)


def run(work):
    thread = Thread(target=work)
    thread.start()
    thread.join()


def run_one_after_the_other(first, second):
    """Runs them in two threads one after the other, which get the same thread id."""
    numbers = []

    def begin(work):
        numbers.append(get_ident())
        if numbers[-1] == numbers[0]:
            work()

    run(lambda: begin(first))
    for _ in range(100):
        run(lambda: begin(second))
        if numbers[-1] == numbers[0]:
            return
    pytest.skip("the number of the thread was not used again")


def blob(record):
    safetensors = pytest.importorskip("safetensors.torch")
    return safetensors.load_file(Path(unquote(urlparse(record["blob_uri"]).path)))


# -- mixed precision with an optimizer that unscales the gradients itself --


def fused_epoch(model, factor, unscale=False):
    """One epoch; the gradients as they would be without scaling."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    for i, (x, y) in enumerate(make_loader(2)):
        expected = torch.autograd.grad(mse_loss(model(x), y), list(model.parameters()))
        loss = mse_loss(model(x), y) * factor(i)
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if factor(i) == 1.0:
            optimizer.zero_grad()
    return expected


@pytest.mark.parametrize("unscale", [False, True])
def test_a_fused_optimizer_unscales_them_itself(spool_dir, unscale):
    expected = fused_epoch(make_model(), lambda i: 1.0, unscale)
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    for name, value in zip(NAMES, expected, strict=True):
        assert norm(epoch[name]) == pytest.approx(value.norm().item(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("unscale", [False, True])
def test_a_step_that_a_fused_optimizer_skips_takes_none(spool_dir, unscale):
    fused_epoch(make_model(), lambda i: float("inf") if i == 1 else 1.0, unscale)
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_END
    stats = epoch[NAMES[0]]["stats"]
    assert stats["inf_count"] + stats["nan_count"] > 0


# -- epochs of other lengths than expected --


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        for _ in range(self.length):
            yield torch.randn(4), torch.randn(1)


def test_a_wrong_guess_gives_way_to_what_is_there_at_the_end(spool_dir):
    loop = Loop()
    left = []
    for length in (3, 6, 2):
        loop.loader = DataLoader(Stream(length), batch_size=1)
        loop.epoch()
        left.append(loop.model[0].weight.grad.clone())
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_END] * 3
    assert all(same(e[NAMES[0]], value) for e, value in zip(epochs, left, strict=True))
    assert all("last" not in r["attrs"] for e in epochs for r in gradients(e).values())


def test_gradients_that_are_thrown_away_leave_the_guess(spool_dir):
    loop = Loop()

    def step(x, y):
        mse_loss(loop.model(x), y).backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()

    loop.step = step
    for length in (3, 6, 6):
        loop.loader = DataLoader(Stream(length), batch_size=1)
        loop.epoch()
    first, second, third = records(spool_dir)
    for epoch, length in ((first, 3), (second, 6)):
        (taken,) = {tuple(record["attrs"].items()) for record in gradients(epoch).values()}
        number = dict(taken)["optimizer_step"]  # of the guess, or a later one
        assert number >= (3 if epoch is second else 1)
        assert ("last" in dict(taken)) == (number != length)
    taken = {"taken": "optimizer_step", "optimizer_step": 6}
    assert [record["attrs"] for record in gradients(third).values()] == [taken] * 4


def test_steps_with_a_closure_are_counted_in_their_own_epoch(spool_dir):
    start(config={"torch": {"epoch_steps": 4}})
    loop = Loop()

    def closure():
        loss = mse_loss(loop.model(torch.ones(2, 4)), torch.ones(2, 1))
        loss.backward()
        return loss

    for _ in range(9):
        loop.optimizer.step(closure)
        loop.optimizer.zero_grad()
    epochs = records(spool_dir)
    taken = [{r["attrs"].get("optimizer_step") for r in gradients(e).values()} for e in epochs]
    assert taken[1] == {4}
    assert not [r for e in epochs for r in gradients(e).values() if "last" in r["attrs"]]


# -- threads --


def last_step(loop):
    """All batches of an epoch that stays open, and nothing left of its gradients."""
    batches = iter(loop.loader)
    for _ in range(len(loop.loader)):
        x, y = next(batches)
        mse_loss(loop.model(x), y).backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()
    return batches


def test_a_thread_that_ends_inside_its_epoch_leaves_nothing_to_the_next(spool_dir):
    loop = Loop(2)
    ci.watch(loop.model)
    kept = []

    def comes():
        with ci.scope("epoch", 1):
            pass

    run_one_after_the_other(lambda: kept.append(last_step(loop)), comes)
    assert gradients(records(spool_dir)[-1]) == {}


def test_a_thread_that_ends_inside_its_trainer_leaves_no_model_to_the_next(spool_dir):
    from sonde import snapshots

    led, other = nn.Linear(1, 2), nn.Linear(3, 4)

    def comes():
        other(torch.ones(1, 3))
        with ci.scope("epoch"):
            pass

    run_one_after_the_other(lambda: snapshots.lead(led), comes)
    (epoch,) = records(spool_dir)
    assert epoch["weight"]["shape"] == [4, 3]


def test_every_open_epoch_gets_its_own_when_the_session_ends(spool_dir):
    loops = [Loop(2), Loop(2)]
    for number, loop in enumerate(loops):
        ci.watch(loop.model, name=f"m{number}")
    ready, over = [Event(), Event()], Event()

    def train(number):
        batches = last_step(loops[number])
        ready[number].set()
        over.wait(60)
        del batches

    threads = [Thread(target=train, args=(number,)) for number in range(2)]
    for thread, event in zip(threads, ready, strict=True):
        thread.start()
        assert event.wait(60)
    epochs = records(spool_dir)
    over.set()
    for thread in threads:
        thread.join()
    assert [list(gradients(epoch)) for epoch in epochs] == [
        [f"m{number}.{name}" for name in NAMES] for number in range(2)
    ]


def test_the_session_ends_inside_another_threads_trainer(spool_dir):
    from sonde import snapshots

    led = nn.Linear(1, 2)
    ready, over = Event(), Event()

    def train():
        snapshots.lead(led)
        with ci.scope("epoch"):
            ready.set()
            over.wait(60)

    thread = Thread(target=train)
    thread.start()
    assert ready.wait(60)
    (epoch,) = records(spool_dir)
    over.set()
    thread.join()
    assert weights(epoch) == ["weight", "bias"]


# -- sampling --


def test_an_epoch_is_sampled_as_a_whole_whatever_other_threads_do(spool_dir):
    start(snapshots="sampled", sample_rate=0.5)
    loop = Loop(2)
    ci.watch(loop.model)

    def elsewhere():
        with ci.scope("epoch"):
            pass

    for _ in range(12):
        batches = last_step(loop)
        run(elsewhere)
        assert next(batches, None) is None  # the end
    epochs = records(spool_dir)
    assert len(epochs) == 24
    decisions = set()
    for epoch in epochs:
        (sampled,) = {record["attrs"]["sampled"] for record in epoch.values()}
        assert {record["blob_uri"] is not None for record in epoch.values()} == {sampled}
        decisions.add(sampled)
    assert decisions == {True, False}


def test_the_same_epochs_are_sampled_whatever_runs_beside_them(spool_dir, monkeypatch):
    monkeypatch.setenv("CIRRON_RUN_ID", "the same")

    def elsewhere():
        with ci.scope("epoch", 1000):
            pass

    def decisions(beside):
        start(snapshots="sampled", sample_rate=0.5)
        loop = Loop(1)
        ci.watch(loop.model)
        for index in range(12):
            with ci.scope("epoch", index):
                loop.epoch()
            loop.optimizer.zero_grad()
            if beside:
                run(elsewhere)
        return [e["0.weight"]["attrs"]["sampled"] for e in records(spool_dir) if NAMES[0] in e]

    alone = decisions(False)
    assert set(alone) == {True, False}
    assert decisions(True)[-12:] == alone


# -- parameters of several optimizers --


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)

    def optimizers(self):
        return {
            head: torch.optim.SGD(
                [*self.trunk.parameters(), *getattr(self, head).parameters()], lr=0.01
            )
            for head in "ab"
        }

    def forward(self, x, head):
        return getattr(self, head)(self.trunk(x))


@pytest.mark.parametrize("batches", [1, 3])
def test_of_a_parameter_in_two_optimizers_the_newest_gradient_counts(spool_dir, batches):
    start(snapshots="full")
    model = Shared()
    optimizers = model.optimizers()
    used = {}
    for _ in range(2):
        for x, y in make_loader(batches):
            for head, optimizer in optimizers.items():
                mse_loss(model(x, head), y).backward()
                for name, parameter in model.named_parameters():
                    if parameter.grad is not None:
                        used[name] = parameter.grad.clone()
                optimizer.step()
                optimizer.zero_grad()
    epochs = records(spool_dir)
    for epoch in epochs:
        assert set(gradients(epoch)) == {f"{name}.grad" for name in used}
        assert places(epoch) == AT_STEP
        assert set(blob(epoch["trunk.weight.grad"])) == set(used)
    kept = blob(epochs[1]["trunk.weight.grad"])
    for name, value in used.items():
        assert same(epochs[1][f"{name}.grad"], value)
        assert torch.equal(kept[name], value)


def test_two_optimizers_of_the_same_parameters(spool_dir):
    loop = Loop(2)
    second = torch.optim.SGD(loop.model.parameters(), lr=0.001)
    for x, y in loop.loader:
        loop.step(x, y)
        second.zero_grad()
        (3 * mse_loss(loop.model(x), y)).backward()
        used = loop.model[0].weight.grad.clone()
        second.step()
        second.zero_grad()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert same(epoch[NAMES[0]], used)


# -- watching --


class Odd(nn.Linear):
    """`==` gives an array, as in NumPy."""

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")

    __hash__ = nn.Linear.__hash__


def test_a_model_is_not_compared_by_value(spool_dir):
    ci.shutdown()
    first, second = Odd(1, 2), Odd(1, 3)
    for model in (first, second, first):
        ci.watch(model)
    ci.profile(frameworks=["torch"], flush_interval=3600)
    with ci.scope("epoch"):
        pass
    (epoch,) = records(spool_dir)
    assert len(epoch) == 4
