"""The PyTorch hook, through real training loops."""

import gc
import pickle
import threading
import warnings

import cirron as ci
import pytest
from child_process import run_python
from spool_files import Spool
from trees import sketch, spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

STEP = "(data_load forward backward optimizer_step)"


@pytest.fixture(autouse=True)
def hooked(fresh_process):
    torch.manual_seed(0)
    handle = ci.profile(output="none", frameworks=["torch"], flush_interval=3600)
    yield handle
    ci.shutdown()


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


def steps(count, inside=STEP, first=0):
    return " ".join(f"step[{i}]{inside}" for i in range(first, first + count))


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
    first = f"step[0](data_load forward backward optimizer_step {check})"
    assert sketch() == f"epoch[0]({first} step[1]{STEP})"


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
    loop, other = Loop(1), make_loader(1)
    iterator = iter(other)
    next(iterator)
    loop.epoch()
    assert sketch() == f"data_load epoch[0]({steps(1)})"
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
    assert sketch() == "forward backward"


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
        f"forward backward optimizer_step epoch[0]({steps(2, part)}) epoch[1]({steps(2, part)}) "
        f"epoch[2]...(step[0]...{part})"
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


# -- life of the hook --


def hooked_objects():
    from torch.optim import optimizer as optim

    return (
        torch.autograd.backward,
        torch.Tensor.backward,
        torch.nn.Module.__call__,
        DataLoader.__iter__,
        DataLoader.__dict__.get("__init_subclass__"),
        torch.amp.GradScaler.step,
        dict(optim._global_optimizer_pre_hooks),
        dict(optim._global_optimizer_post_hooks),
    )


def test_shutdown_restores_the_identical_originals():
    ci.shutdown()
    before = hooked_objects()
    ci.profile(output="none", frameworks=["torch"])
    during = hooked_objects()
    assert during[0] is not before[0]
    assert during[2] is before[2], "the function object stays: Dynamo compares it"
    ci.shutdown()
    after = hooked_objects()
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))
    loop = Loop()
    loop.epoch()
    assert spans("forward") == []


@pytest.mark.parametrize("ours_goes_first", [True, False])
@pytest.mark.parametrize("installed", ["before", "after"])
def test_beside_another_tool(installed, ours_goes_first):
    calls = []
    places = [
        (torch.autograd, "backward"),
        (DataLoader, "__iter__"),
        (nn.Module, "__call__"),
        (torch.amp.GradScaler, "step"),
    ]

    class Tool:
        def install(self):
            self.originals = [vars(owner)[name] for owner, name in places]
            for (owner, name), original in zip(places, self.originals, strict=True):
                setattr(owner, name, self.wrap(original, name))

        def wrap(self, original, name):
            def wrapper(*args, **kwargs):
                calls.append(name)
                return original(*args, **kwargs)

            return wrapper

        def remove(self):
            for (owner, name), original in zip(places, self.originals, strict=True):
                setattr(owner, name, original)

    ci.shutdown()
    pristine = [vars(owner)[name] for owner, name in places]
    tool, loop = Tool(), Loop(2)
    if installed == "before":
        tool.install()
    ci.profile(output="none", frameworks=["torch"])
    if installed == "after":
        tool.install()
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"
    assert {"backward", "__iter__", "__call__"} <= set(calls)
    for remove in (ci.shutdown, tool.remove) if ours_goes_first else (tool.remove, ci.shutdown):
        remove()
    calls.clear()
    recorded = len(spans("forward"))
    loop.epoch()
    # What is left of either, if the other put it back after that one was gone, does nothing.
    assert len(spans("forward")) == recorded
    if installed == "after" or ours_goes_first:
        assert calls == []
    ci.profile(output="none", frameworks=["torch"])
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"
    ci.shutdown()
    for (owner, name), original in zip(places, pristine, strict=True):
        setattr(owner, name, original)


def test_sessions_count_from_zero():
    loop = Loop(1)
    loop.epoch()
    ci.shutdown()
    ci.profile(output="none", frameworks=["torch"])
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(1)})"


def test_iterator_that_outlives_its_session():
    loop = Loop(3)
    iterator = iter(loop.loader)
    loop.step(*next(iterator))
    ci.shutdown()
    loop.step(*next(iterator))
    ci.profile(output="none", frameworks=["torch"])
    loop.step(*next(iterator))
    assert list(iterator) == []
    assert [span["name"] for span in spans("forward")] == ["forward"]


def test_shutdown_in_the_middle_of_an_epoch_writes_it(spool_dir):
    ci.shutdown()
    ci.profile(frameworks=["torch"])
    loop = Loop(3)
    for x, y in loop.loader:
        loop.step(x, y)
        ci.shutdown()
        break
    spool = Spool(spool_dir)
    epoch, step = spool.one("epoch"), spool.one("step")
    assert (epoch["index"], step["index"], step["parent_id"]) == (0, 0, epoch["id"])
    assert spool.one("data_load")["parent_id"] == step["id"]


def test_frameworks_chosen_by_the_caller():
    ci.shutdown()
    ci.profile(output="none", frameworks=[])
    Loop(1).epoch()
    assert sketch() == ""


def test_unknown_framework_warns(caplog):
    ci.shutdown()
    handle = ci.profile(output="none", frameworks=["torch", "nonsense"])
    assert handle.installed_hooks == ["torch"]
    (record,) = [r for r in caplog.records if r.name == "cirron.hooks"]
    assert "nonsense" in record.message
    assert record.levelname == "WARNING"


def test_hook_that_fails_warns_and_steps_aside(caplog, monkeypatch):
    ci.shutdown()
    before = hooked_objects()
    monkeypatch.delattr(torch, "autograd")
    ci.profile(output="none", frameworks=["torch"])
    monkeypatch.undo()
    (record,) = [r for r in caplog.records if r.name == "cirron.hooks.torch"]
    assert "the torch hook is off" in record.message
    Loop(1).epoch()
    assert sketch() == ""
    assert all(a is b or a == b for a, b in zip(before, hooked_objects(), strict=True))


def test_uninstalling_one_hook(hooked):
    (handle,) = hooked.hook_handles
    assert (handle.name, handle.active) == ("torch", True)
    handle.uninstall()
    handle.uninstall()
    assert not handle.active
    Loop(1).epoch()
    assert sketch() == ""


def test_pickled_model_is_the_models_own_affair():
    model = make_model()
    model(torch.zeros(1, 4))
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(torch.ones(1, 4)), model(torch.ones(1, 4)))


# -- in a process of its own --


def test_profile_imports_no_framework(workdir):
    run_python("""
        import sys
        import cirron as ci
        handle = ci.profile(output="none")
        frameworks = ("torch", "tensorflow", "keras", "transformers", "lightning", "sklearn")
        assert not [name for name in frameworks if name in sys.modules]
        assert "torch" in handle.installed_hooks
        assert not any(hook.active for hook in handle.hook_handles)
    """)


def test_framework_imported_after_profile(workdir):
    run_python("""
        import sys
        import cirron as ci
        handle = ci.profile(output="none")
        import torch
        hook = handle.hook_handles[handle.installed_hooks.index("torch")]
        assert hook.active
        assert type(torch.__spec__.loader).__module__ != "sonde.hooks.watcher"
        assert type(torch.__loader__).__module__ != "sonde.hooks.watcher"
        torch.nn.Linear(2, 2)(torch.zeros(1, 2))
        names = [s["name"] for s in ci.trace(format="dict")["roots"][0]["children"]]
        assert names == ["forward"], names
        ci.shutdown()
        assert not any(type(f).__module__ == "sonde.hooks.watcher" for f in sys.meta_path)
    """)


def test_framework_imported_after_shutdown_is_left_alone(workdir):
    run_python("""
        import cirron as ci
        ci.profile(output="none")
        ci.shutdown()
        import torch
        torch.nn.Linear(2, 2)(torch.zeros(1, 2))
        assert ci.trace(format="dict")["span_count"] == 1
    """)


COMPILE = """
    import logging, sys, warnings
    import torch
    from torch import nn
    from torch._dynamo.utils import counters
    import cirron as ci

    if sys.argv[1] == "hooked":
        ci.profile(output="none", frameworks=["torch"])
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
                          nn.Linear(8, 1))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="aot_eager")
    def whole_step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for size in (2, 2, 2):
            x = torch.zeros(size, 4)
            compiled(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        for _ in range(3):
            whole_step(torch.zeros(2, 4))
    found = {
        "breaks": sum(counters["graph_break"].values()),
        "unique_graphs": counters["stats"]["unique_graphs"],
        "calls": counters["stats"]["calls_captured"],
        "warnings": sorted({str(w.message).splitlines()[0][:80] for w in said}),
    }
    print(found)
    if sys.argv[1] == "hooked":
        forwards = [s for s in ci.trace(format="dict")["roots"][0]["children"]
                    if s["name"] == "forward"]
        assert len(forwards) >= 1
"""


def test_compile_sees_no_difference(workdir):
    bare = run_python(COMPILE, "bare").stdout
    hooked = run_python(COMPILE, "hooked").stdout
    assert "unique_graphs" in bare
    assert hooked == bare


DISTRIBUTED = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
    import cirron as ci

    ci.profile(frameworks=["torch"])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    if sys.argv[1] == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(("kind", "ranks"), [("ddp", 2), ("ddp", 4), ("fsdp", 2)])
def test_distributed(workdir, spool_dir, kind, ranks):
    import os
    import subprocess
    import sys
    import textwrap

    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20_000 + os.getpid() % 20_000 + ranks),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(DISTRIBUTED), kind],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for process in running:
        errors = process.communicate(timeout=200)[1]
        assert process.returncode == 0, errors
    spool = Spool(spool_dir)
    per_epoch = 16 // ranks // 2
    for rank in range(ranks):
        mine = [span for span in spool.spans if span["rank"] == rank]
        count = {name: sum(s["name"] == name for s in mine) for name in {s["name"] for s in mine}}
        assert count == {
            "cirron.session": 1,
            "epoch": 2,
            "step": 2 * per_epoch,
            "data_load": 2 * per_epoch,
            "forward": 2 * per_epoch,
            "backward": 2 * per_epoch,
            "optimizer_step": 2 * per_epoch,
        }
        parents = {span["id"]: span for span in mine}
        for span in mine:
            if span["name"] in ("data_load", "forward", "backward", "optimizer_step"):
                assert parents[span["parent_id"]]["name"] == "step"
