"""The PyTorch hook: the tree of real training loops."""

import gc

import cirron as ci
import pytest
from trees import sketch, spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402
from torch_loops import STEP, Loop, make_loader, make_model, steps  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")


# -- the tree --


def test_plain_loop():
    loop = Loop(3)
    for _ in range(2):
        loop.epoch()
    assert sketch() == f"epoch[0]({steps(3)}) epoch[1]({steps(3)})"


def test_forward_says_in_which_mode():
    loop = Loop()
    loop.epoch()
    loop.evaluate()
    modes = [span["attrs"]["mode"] for span in spans("forward")]
    assert modes == ["train", "train", "eval", "eval"]


def test_times_follow_each_other():
    Loop(3).epoch()
    (epoch,) = spans("epoch")
    previous = epoch["start_ns"]
    for step in epoch["children"]:
        assert step["start_ns"] >= previous
        previous = step["start_ns"]
        for part in step["children"]:
            assert previous <= part["start_ns"] <= part["end_ns"] <= step["end_ns"]
            previous = part["end_ns"]
    assert previous <= epoch["end_ns"]


@pytest.mark.parametrize("ahead", [False, True])
def test_what_was_before_a_pass_ends_where_its_iterator_is_made(ahead):
    """Starting its workers takes a while; that time belongs to the validation."""

    def batches(loader):
        waiting = None
        for batch in loader:
            if ahead and waiting is None:
                waiting = batch
                continue
            yield waiting if ahead else batch
            waiting = batch
        if ahead:
            yield waiting

    loop, checks = Loop(3), make_loader(2, num_workers=1)
    for _ in range(2):
        for i, (x, y) in enumerate(batches(loop.loader)):
            loop.step(x, y)
            if i == 1 and not ahead:
                loop.evaluate(checks)
        if ahead:
            loop.evaluate(checks)
    assert len(spans("validation")) == 2

    def follow(span):
        before = span["start_ns"]
        for child in span["children"]:
            assert child["start_ns"] >= before, f"{child['name']} begins before the last one ends"
            before = child["end_ns"] or before
            follow(child)

    (root,) = ci.trace(format="dict")["roots"]
    follow(root)


def test_sampling_from_an_average_of_the_model_is_no_part_of_a_step():
    from copy import deepcopy

    loop = Loop(3)
    average = deepcopy(loop.model)
    for i, (x, y) in enumerate(loop.loader):
        loop.step(x, y)
        if i == 1:
            with torch.no_grad():
                average(x)
                average(x)
    sampling = "validation(forward forward)"
    assert sketch() == f"epoch[0]({steps(2)} {sampling} {steps(1, first=2)})"


def test_data_load_is_the_fetch_and_the_step_includes_it():
    import time

    class Slow(IterableDataset):
        def __iter__(self):
            for _ in range(2):
                time.sleep(0.03)
                yield torch.zeros(4), torch.zeros(1)

    loop = Loop()
    loop.loader = DataLoader(Slow(), batch_size=1)
    loop.epoch()
    for load, step in zip(spans("data_load"), spans("step"), strict=True):
        assert load["wall_us"] >= 30_000
        assert step["start_ns"] <= load["start_ns"]
        assert step["end_ns"] >= load["end_ns"]


def test_code_after_the_optimizer_step_belongs_to_that_step():
    loop = Loop()
    for x, y in loop.loader:
        loop.step(x, y)
        with ci.scope("logging"):
            ci.mark("loss", 0.5)
    inside = "(data_load forward backward optimizer_step logging)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_user_scope_around_the_step():
    loop = Loop()
    for x, y in loop.loader:
        with ci.scope("work"):
            loop.step(x, y)
    inside = "(data_load work(forward backward optimizer_step))"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_gradient_accumulation():
    loop = Loop(4)
    for i, (x, y) in enumerate(loop.loader):
        mse_loss(loop.model(x), y).backward()
        if i % 2:
            loop.optimizer.step()
    inside = "(data_load forward backward data_load forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_several_optimizers_in_one_step():
    loop = Loop()
    other = torch.optim.Adam(make_model().parameters())
    for x, y in loop.loader:
        loop.step(x, y)
        other.step()
    inside = "(data_load forward backward optimizer_step optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_step_that_mixed_precision_skips():
    loop = Loop(3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for i, (x, y) in enumerate(loop.loader):
        loop.optimizer.zero_grad()
        loss = mse_loss(loop.model(x), y)
        scaler.scale(loss * (float("inf") if i == 1 else 1.0)).backward()
        scaler.step(loop.optimizer)
        scaler.update()
    assert sketch() == f"epoch[0](step[0]{STEP} step[1](data_load forward backward) step[2]{STEP})"


def test_closures():
    loop = Loop()
    optimizer = torch.optim.LBFGS(loop.model.parameters(), max_iter=2)
    for x, y in loop.loader:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = mse_loss(loop.model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
    for step in spans("step"):
        assert [part["name"] for part in step["children"]] == ["data_load", "optimizer_step"]
        inside = [part["name"] for part in step["children"][1]["children"]]
        assert inside[:2] == ["forward", "backward"]
        assert set(inside) == {"forward", "backward"}


def test_validation_after_each_epoch():
    loop, held_out = Loop(), make_loader(1)
    for _ in range(2):
        loop.epoch()
        loop.evaluate(held_out)
    check = "validation(data_load forward:eval)"
    assert sketch() == f"epoch[0]({steps(2)}) {check} epoch[1]({steps(2)}) {check}"


def test_validation_in_the_middle_of_an_epoch():
    loop, held_out = Loop(2), make_loader(2)
    for i, (x, y) in enumerate(loop.loader):
        loop.model.train()
        loop.step(x, y)
        if i == 0:
            loop.evaluate(held_out)
    check = "validation(data_load forward:eval data_load forward:eval)"
    assert sketch() == f"epoch[0](step[0]{STEP} {check} step[1]{STEP})"


def test_validation_with_gradients_on():
    loop = Loop(2)
    loop.epoch()
    loop.model.eval()
    for x, _ in make_loader(2):
        loop.model(x)
    check = "validation(data_load forward:eval data_load forward:eval)"
    assert sketch() == f"epoch[0]({steps(2)}) {check}"


def test_evaluation_only():
    model = make_model().eval()
    for x, _ in make_loader(2):
        with torch.inference_mode():
            model(x)
    assert sketch() == "validation(data_load forward:eval data_load forward:eval)"


def test_frozen_teacher_in_evaluation_mode():
    loop, teacher = Loop(2), make_model().eval()
    loop.epoch()
    for x, y in loop.loader:
        with torch.no_grad():
            teacher(x)
        loop.step(x, y)
    inside = "(data_load forward:eval forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2)}) epoch[1]({steps(2, inside)})"


def test_peek_is_no_epoch():
    loop = Loop(1)
    next(iter(loop.loader))
    loop.epoch()
    iterator = iter(loop.loader)  # as in the tutorials: it stays alive
    next(iterator)
    loop.epoch()
    assert sketch() == f"data_load epoch[0]({steps(1)}) data_load epoch[1]({steps(1)})"


def test_peek_into_another_loader_that_stays_alive():
    """More batches may come from it, so the first epoch begins with it."""
    loop, other = Loop(1), make_loader(1)
    iterator = iter(other)
    next(iterator)
    for _ in range(2):
        loop.epoch()
    first = "step[0](data_load data_load forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({first}) epoch[1]({steps(1)})"
    del iterator


def test_zipped_loaders():
    loop = Loop(2)
    for (x, y), _ in zip(loop.loader, make_loader(3), strict=False):
        loop.step(x, y)
    inside = "(data_load data_load forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_endless_second_loader():
    loop, extra = Loop(3), make_loader(2)
    second = iter(extra)
    for x, y in loop.loader:
        try:
            next(second)
        except StopIteration:
            second = iter(extra)
            next(second)
        loop.step(x, y)
    assert [span["name"] for span in spans("epoch")] == ["epoch"]
    assert [len(step["children"]) for step in spans("step")] == [5, 5, 5]


def test_loader_zipped_with_itself():
    loop = Loop(2)
    for _ in range(2):
        for (x, _), (_, y) in zip(loop.loader, loop.loader, strict=True):
            loop.step(x, y)
    inside = steps(2, "(data_load data_load forward backward optimizer_step)")
    assert sketch() == f"epoch[0]({inside}) epoch[1]({inside})"


def test_validation_before_the_first_forward():
    loop, held_out = Loop(2), make_loader(1)
    for i, (x, y) in enumerate(loop.loader):
        if i == 0:
            loop.evaluate(held_out)
            loop.model.train()
        loop.step(x, y)
    check = "validation(data_load forward:eval)"
    first = f"data_load {check} step[0](forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({first} step[1]{STEP})"


def test_training_in_evaluation_mode():
    loop = Loop(2)
    loop.model.eval()
    for _ in range(2):
        for x, y in loop.loader:
            loop.step(x, y)
    step = "(data_load forward:eval backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, step)}) epoch[1]({steps(2, step)})"


def test_break_ends_the_epoch():
    loop = Loop(3)
    for x, y in loop.loader:
        loop.step(x, y)
        break
    with ci.scope("after"):
        pass
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(1)}) after epoch[1]({steps(3)})"


def test_loss_module_is_no_forward():
    loop = Loop(1)
    criterion = nn.MSELoss()
    for x, y in loop.loader:
        criterion(loop.model(x), y)
        nn.Sequential(nn.ReLU(), nn.Sigmoid())(x)
    assert len(spans("forward")) == 1


def test_only_the_outermost_module_is_a_forward():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_model()

        def forward(self, x):
            return self.inner(self.inner[0](x).mean(1, keepdim=True).expand(-1, 4))

    Outer()(torch.zeros(2, 4))
    assert sketch() == "forward"


def test_autograd_backward_is_a_backward():
    torch.autograd.backward(mse_loss(make_model()(torch.zeros(2, 4)), torch.zeros(2, 1)))
    assert sketch() == "epoch[0]...(step[0]...(forward backward))"


def test_autograd_grad_is_a_backward():
    model = make_model()
    torch.autograd.grad(model(torch.zeros(2, 4)).sum(), list(model.parameters()))
    assert sketch() == "epoch[0]...(step[0]...(forward backward))"


def test_without_a_loader(hooked):
    ci.shutdown()
    ci.profile(output="none", frameworks=["torch"], config={"torch": {"epoch_steps": 2}})
    loop = Loop()
    x, y = torch.zeros(2, 4), torch.zeros(2, 1)
    for _ in range(6):
        loop.step(x, y)
    ci.flush()
    part = "(forward backward optimizer_step)"
    assert sketch() == (
        f"epoch[0]({steps(2, part)}) epoch[1]({steps(2, part)}) "
        f"epoch[2]...(step[0]{part} step[1]...{part})"
    )


def test_long_loader_epochs_are_not_cut():
    loop = Loop(1100)
    loop.epoch()
    assert [len(epoch["children"]) for epoch in spans("epoch")] == [1100]


def test_iterable_dataset():
    class Numbers(IterableDataset):
        def __iter__(self):
            yield from (((torch.zeros(4), torch.zeros(1))) for _ in range(4))

    loop = Loop()
    loop.loader = DataLoader(Numbers(), batch_size=2)
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers(start, persistent):
    loop = Loop(2, num_workers=2, multiprocessing_context=start, persistent_workers=persistent)
    for _ in range(2):
        loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)}) epoch[1]({steps(2)})"
    del loop
    gc.collect()


def test_scopes_of_the_dataset_are_inside_the_fetch():
    class Data:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            with ci.scope("decode"):
                return torch.zeros(4), torch.zeros(1)

    loop = Loop()
    loop.loader = DataLoader(Data(), batch_size=2)
    loop.epoch()
    inside = "(data_load(decode decode) forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(2, inside)})"


def test_loader_subclass_with_its_own_iter():
    class Before(DataLoader):
        pass

    class Twice(DataLoader):
        def __iter__(self):
            for item in super().__iter__():
                yield item
                yield item

    loop = Loop(1)
    loop.loader = Twice(loop.loader.dataset, batch_size=2)
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"


def test_iterator_is_like_torchs_own():
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    loader = make_loader(3)
    iterator = iter(loader)
    assert isinstance(iterator, _BaseDataLoaderIter)
    assert len(iterator) == 3
    assert iter(iterator) is iterator
    assert iterator._num_yielded == 0
    next(iterator)
    assert iterator._num_yielded == 1
    assert len(list(iterator)) == 2
    with pytest.raises(StopIteration):
        next(iterator)


def test_parts_of_a_model_that_is_never_called_have_their_names():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 1)

        def loss(self, x):
            return self.decoder(self.encoder(x)).sum()

    model = Whole()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x in DataLoader(torch.ones(4, 4), batch_size=2):
            optimizer.zero_grad()
            model.loss(x).backward()
            optimizer.step()
    names = [span["attrs"].get("name") for span in spans("forward")]
    assert names[4:] == ["encoder", "decoder"] * 2  # the parent is looked for in the first epoch


def test_loop_around_a_loop_that_trains_is_an_epoch_in_whatever_mode_the_last_model_was():
    first, second = Loop(2), Loop(2)
    first.epoch()
    first.model.eval()
    with torch.no_grad():
        first.model(torch.ones(2, 4))
    for _ in make_loader(2):
        for x, y in first.loader:
            second.step(x, y)
    third = f"step[2](data_load {STEP[1:]}"  # with the second batch of the outer one
    assert sketch().endswith(f"epoch[1](data_load {steps(2)} {third} step[3]{STEP})")
