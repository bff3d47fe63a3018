"""The PyTorch hook: optimizers that raise, and other tools' hooks around ours."""

import copy
import pickle
import time
from collections import OrderedDict
from contextlib import suppress

import cirron as ci
import pytest
from child_process import run_python
from trees import sketch, spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim.optimizer import (  # noqa: E402
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch_loops import Lookahead, Loop, steps  # noqa: E402

EMPTY = {}


class Broken(torch.optim.SGD):
    fails = True

    def step(self, closure=None):
        if self.fails:
            raise ValueError("broken")


class Tool:
    """The hooks of another tool, installed before ours."""

    def __init__(self):
        self.kept = []
        self.exchange = None

    def before(self, optimizer, args, kwargs):
        self.kept.append(kwargs)
        return None if self.exchange is None else (args, self.exchange(kwargs))


@pytest.fixture
def tool(fresh_process):
    found = Tool()
    handle = register_optimizer_step_pre_hook(found.before)
    ci.profile(output="none", frameworks=["torch"], flush_interval=3600)
    yield found
    handle.remove()


def raise_once(model):
    broken = Broken(model.parameters(), lr=0.1)
    with suppress(ValueError):
        broken.step()
    with ci.scope("after"):
        model(torch.zeros(2, 4))
    broken.fails = False
    broken.step()


EXCHANGES = {
    "kept": None,
    "a copy": dict,
    "a subclass": OrderedDict,
    "always the same": lambda kwargs: EMPTY,
}


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
def test_steps_beside_another_tool(tool, exchange):
    tool.exchange = exchange
    loop = Loop(3)
    loop.optimizer = Lookahead(loop.optimizer)
    loop.epoch()
    inside = "(data_load forward backward optimizer_step(optimizer_step))"
    assert sketch() == f"epoch[0]({steps(3, inside)})"
    assert {type(each) for each in [*tool.kept, EMPTY]} == {dict}


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
def test_a_step_that_raises_ends_there_beside_another_tool(tool, exchange):
    tool.exchange = exchange
    raise_once(Loop(1).model)
    inside = "optimizer_step after(forward) optimizer_step"
    assert sketch() == f"epoch[0]...(step[0]...({inside}))"
    assert {type(each) for each in [*tool.kept, EMPTY]} == {dict}


def test_a_step_that_raises_ends_before_its_exception_is_handled(hooked):
    loop = Loop(1)
    broken = Broken(loop.model.parameters(), lr=0.1)
    kept = []
    for _ in range(2):
        try:
            broken.step()
        except ValueError as error:
            with ci.scope("handler"):
                time.sleep(0.05)
            kept.append(error)
        with ci.scope("after"):
            loop.model(torch.zeros(2, 4))
    assert sketch() == "epoch[0]...(step[0]...(optimizer_step handler after(forward)" + (
        " optimizer_step handler after(forward)))"
    )
    for span in spans("optimizer_step"):
        assert span["end_ns"] - span["start_ns"] < 25e6
        assert span["attrs"]["exception"] == "ValueError"
        assert span["attrs"]["exception_message"] == "broken"


def test_the_inner_of_two_steps_raises(hooked):
    loop = Loop(1)

    class Outer(Broken):
        def step(self, closure=None):
            try:
                inner.step()
            except ValueError as error:
                self.error = error
                with ci.scope("handler"):
                    pass
            block = torch.autograd.profiler.record_function
            with block("of the program"), suppress(KeyError), block("Optimizer.zero_grad"):
                raise KeyError

    inner = Broken(loop.model.parameters(), lr=0.1)
    Outer(loop.model.parameters(), lr=0.1).step()
    assert sketch() == "epoch[0]...(step[0]...(optimizer_step(optimizer_step handler)))"
    errors = [span["attrs"].get("exception") for span in spans("optimizer_step")]
    assert sorted(errors, key=str) == [None, "ValueError"]


def test_the_exit_of_blocks_is_put_back(hooked):
    with pytest.raises(ValueError), torch.autograd.profiler.record_function("Optimizer.step#x"):
        raise ValueError
    ci.shutdown()
    broken = Broken([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(ValueError):
        broken.step()
    ci.profile(output="none", frameworks=["torch"], flush_interval=3600)
    with pytest.raises(ValueError):
        broken.step()
    assert len(spans("optimizer_step")) == 1


def test_what_a_later_hook_sees_of_the_arguments(hooked):
    seen, after = [], []

    def before(optimizer, args, kwargs):
        assert kwargs == {"closure": None}
        seen.extend([copy.copy(kwargs), copy.deepcopy(kwargs), pickle.loads(pickle.dumps(kwargs))])

    handles = [
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: after.append(kwargs)),
    ]
    loop = Loop(1)
    loop.optimizer.step(closure=None)
    for handle in handles:
        handle.remove()
    assert [type(each) for each in seen + after] == [dict] * 4
    assert seen + after == [{"closure": None}] * 4
    assert len(spans("optimizer_step")) == 1


def test_a_step_that_raises_in_a_task_while_the_collector_works():
    run_python(
        """
        import asyncio, gc, torch, cirron as ci
        ci.profile(output="none")
        class Broken(torch.optim.SGD):
            def step(self, closure=None):
                closure()
                raise ValueError
        broken = Broken([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        kept = []
        async def main():
            for _ in range(50):
                gc.disable()
                try:
                    broken.step(closure=lambda: kept.append([[] for _ in range(1000)]))
                except ValueError:
                    gc.enable()
                fresh = [{} for _ in range(80)]
                assert len({id(each) for each in fresh}) == 80
        asyncio.run(main())
        """,
    )


def test_training_may_be_a_property(hooked):
    class Frozen(nn.Linear):
        @property
        def training(self):
            return False

        @training.setter
        def training(self, value):
            self.__dict__["training"] = value

    Frozen(4, 1)(torch.zeros(2, 4))
    assert sketch() == "forward:eval"


def test_models_by_turns(hooked):
    """A known model, another, one without parameters, and the first again."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    x = torch.zeros(2, 4)
    for module in (first, first, second, nn.ReLU(), first, first):
        module(x)
    assert sketch() == " ".join(["forward"] * 5)
