"""The PyTorch hook: owners of a level, threads, exceptions."""

import threading
import warnings
from contextlib import suppress

import cirron as ci
import pytest
from trees import sketch, spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torch_loops import Lookahead, Loop, make_loader, make_model, steps  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")


# -- owners of a level --


def test_ci_epochs_and_batches_own_their_levels():
    loop = Loop(3)
    for _ in ci.epochs(range(2)):
        for x, y in ci.batches(loop.loader):
            loop.step(x, y)
    inside = " ".join(f"data_load batch[{i}](forward backward optimizer_step)" for i in range(3))
    assert sketch() == f"epoch[0]({inside}) epoch[1]({inside})"


def test_ci_epochs_with_a_plain_inner_loop():
    loop, held_out = Loop(2), make_loader(1)
    for _ in ci.epochs(range(2)):
        loop.epoch()
        loop.evaluate(held_out)
    inside = f"({steps(2)} validation(data_load forward:eval))"
    assert sketch() == f"epoch[0]{inside} epoch[1]{inside}"


def test_ci_batches_alone():
    loop = Loop(2)
    for x, y in ci.batches(loop.loader):
        loop.step(x, y)
    inside = " ".join(f"data_load batch[{i}](forward backward optimizer_step)" for i in range(2))
    assert sketch() == f"epoch[0]({inside})"


@pytest.mark.parametrize("name", ["step", "batch"])
def test_steps_of_the_program_teach_nothing_about_those_behind_them(name):
    """And they stay complete, although an epoch ends in the middle of one of them."""
    loop = Loop(1)
    ((x, y),) = loop.loader  # the first step is on what is left of it
    for _ in range(3):
        with ci.scope(name):
            loop.step(x, y)
    for _ in range(3):
        loop.step(x, y)
    parts = "forward backward optimizer_step"
    own = f"{name}({parts})"
    behind = f"step[0]({parts}) step[1]({parts}) step[2]...({parts})"
    assert sketch() == f"epoch[0](step[0](data_load {own})) {own} {own} epoch[1]...({behind})"


def test_ten_thousand_batches_stay_flat():
    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.weight

    model = Nothing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in ci.epochs(range(1)):
        for x in ci.batches(DataLoader(range(10_000), batch_size=None)):
            model(x).sum().backward()
            optimizer.step()
    (epoch,) = spans("epoch")
    names = [child["name"] for child in epoch["children"]]
    assert names == ["data_load", "batch"] * 10_000
    assert all(len(batch["children"]) == 3 for batch in spans("batch"))
    assert ci.health()["scope_drop_count"] == 0


def test_own_scope_named_epoch_owns_the_level():
    loop = Loop(1)
    for number in range(2):
        with ci.scope("epoch", index=10 + number):
            loop.epoch()
    assert sketch() == f"epoch[10]({steps(1)}) epoch[11]({steps(1)})"


# -- threads --


def test_each_thread_has_its_own_tree():
    def train():
        Loop(2).epoch()

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sketch() == " ".join([f"epoch[0]({steps(2)})"] * 3)


def test_iterator_dropped_on_another_thread():
    loop = Loop(3)
    iterator = iter(loop.loader)
    loop.step(*next(iterator))
    box = [iterator]
    del iterator
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert sketch() == f"epoch[0]({steps(1)})"
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(1)}) epoch[1]({steps(3)})"


# -- trouble --


def test_exception_in_forward():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_model()

        def forward(self, x):
            self.inner(x)
            raise ValueError("broken")

    loop = Loop(2)
    for x, _ in loop.loader:
        with pytest.raises(ValueError, match="broken"):
            Broken()(x)
        break
    loop.epoch()
    assert sketch() == f"epoch[0](step[0](data_load forward)) epoch[1]({steps(2)})"


def test_exception_in_backward():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("broken")

    loop = Loop(1)
    for x, y in loop.loader:
        with pytest.raises(ValueError, match="broken"):
            Broken.apply(mse_loss(loop.model(x), y)).backward()
        loop.step(x, y)
    assert sketch() == (
        "epoch[0](step[0](data_load forward backward forward backward optimizer_step))"
    )


def test_exception_in_the_optimizer():
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("broken")

    loop = Loop(2)
    broken = Broken(loop.model.parameters(), lr=0.1)
    for x, y in loop.loader:
        with pytest.raises(ValueError, match="broken"):
            broken.step()
        loop.step(x, y)
    inside = "(data_load optimizer_step forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_optimizer_that_raises_ends_there():
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            closure() if closure else None
            raise ValueError("broken")

    loop = Loop(1)
    broken = Broken(loop.model.parameters(), lr=0.1)
    x = torch.zeros(2, 4)
    for closure in (None, lambda: loop.model(x).sum().backward()):
        with suppress(ValueError):
            broken.step(closure)
        with ci.scope("after"):
            loop.model(x)
    after = "after(forward)"
    inside = f"optimizer_step {after} optimizer_step(forward backward) {after}"
    assert sketch() == f"epoch[0]...(step[0]...({inside}))"


def test_optimizer_inside_an_optimizer():
    loop, held_out = Loop(2), make_loader(1)
    loop.optimizer = Lookahead(loop.optimizer)
    for x, y in loop.loader:
        loop.model.train()
        loop.step(x, y)
        loop.evaluate(held_out)
    check = "validation(data_load forward:eval)"
    inside = f"(data_load forward backward optimizer_step(optimizer_step)) {check}"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_exception_in_the_dataset():
    class Broken:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 2:
                raise ValueError("broken")
            return torch.zeros(4), torch.zeros(1)

    loop = Loop(1)
    loop.loader = DataLoader(Broken(), batch_size=1)
    with pytest.raises(ValueError, match="broken"):
        loop.epoch()
    loop.loader = make_loader(1)
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)} step[2](data_load)) epoch[1]({steps(1)})"


def test_failed_epoch_ends_although_its_iterator_lives():
    loop = Loop(2)
    with pytest.raises(RuntimeError) as kept:  # the traceback keeps the iterator
        for x, _ in loop.loader:
            loop.model(x[:, :3])
    loop.loader = make_loader(1)
    loop.epoch()
    assert sketch() == f"epoch[0](step[0](data_load forward)) epoch[1]({steps(1)})"
    del kept


def test_keyboard_interrupt():
    loop = Loop(3)
    try:
        for i, (x, y) in enumerate(loop.loader):
            loop.step(x, y)
            if i == 1:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)}) epoch[1]({steps(3)})"


def test_out_of_memory_that_is_caught_and_skipped():
    loop = Loop(3)
    for i, (x, y) in enumerate(loop.loader):
        try:
            if i == 1:
                loop.model(x[:, :3])
            loop.step(x, y)
        except RuntimeError:
            continue
    assert [span["name"] for span in spans("epoch")] == ["epoch"]
    assert len(spans("data_load")) == 3


def test_sixty_four_open_scopes_cost_only_spans():
    loop = Loop(2)
    open_scopes = [ci.scope(f"s{i}") for i in range(63)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scope in open_scopes:
            scope.__enter__()
        loop.epoch()
        for scope in reversed(open_scopes):
            scope.__exit__(None, None, None)
    loop.epoch()
    assert spans("epoch")[-1]["children"][1]["children"]


# -- exceptions of loader workers --


class Broken(torch.utils.data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise self.error


def test_what_a_worker_raised_may_have_several_lines():
    loader = DataLoader(Broken(ValueError("no sample 17\n  see the log")), num_workers=1)
    with pytest.raises(ValueError, match="Traceback"):
        next(iter(loader))
    (load,) = spans("data_load")
    said = "ValueError: no sample 17\n  see the log"
    assert load["attrs"]["exception_message"].endswith(f"process 0. ... {said}")


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_what_a_worker_raised_is_reported_and_not_its_traceback(kind):
    loader = DataLoader(Broken(kind("no sample 17")), num_workers=1)
    with pytest.raises(kind, match="Traceback"):
        next(iter(loader))
    (load,) = spans("data_load")
    assert load["attrs"]["exception"] == kind.__name__
    said = load["attrs"]["exception_message"]
    assert said.startswith(f"Caught {kind.__name__} in DataLoader worker process 0.")
    assert said.endswith((f"{kind.__name__}: no sample 17", f"{kind.__name__}: 'no sample 17'"))
    assert "\n" not in said
