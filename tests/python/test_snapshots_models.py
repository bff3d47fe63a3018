"""ci.watch, and which model is captured without it."""

import gc
import weakref

import cirron as ci
import pytest
from snapshot_records import records, weights

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_loops import Loop, make_model  # noqa: E402

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.fixture(autouse=True)
def session(fresh_process):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], flush_interval=3600)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)


def epoch_of_nothing():
    with ci.scope("epoch"):
        pass


def names(spool_dir):
    return [weights(epoch) for epoch in records(spool_dir)]


def test_one_model_has_its_names_as_they_are(spool_dir):
    model = Net()
    assert ci.watch(model, name="net") is None
    epoch_of_nothing()
    assert names(spool_dir) == [["layer.weight", "layer.bias"]]


def test_several_models_have_a_namespace_each(spool_dir):
    first, second, third, fourth = Net(), Net(), Net(), make_model()
    for model in (first, second):
        ci.watch(model)
    ci.watch(third, name="generator")
    ci.watch(fourth)
    epoch_of_nothing()
    assert names(spool_dir) == [
        ["Net.layer.weight", "Net.layer.bias", "Net_1.layer.weight", "Net_1.layer.bias"]
        + ["generator.layer.weight", "generator.layer.bias"]
        + [f"Sequential.{name}" for name in NAMES]
    ]


def test_a_model_that_fails_costs_only_itself(session, spool_dir, caplog):
    class Broken(Net):
        def named_parameters(self, *args, **kwargs):
            raise RuntimeError("not today")

    good, bad = Net(), Broken()
    ci.watch(bad)
    ci.watch(good)
    epoch_of_nothing()
    epoch_of_nothing()
    assert names(spool_dir) == [["Net.layer.weight", "Net.layer.bias"]] * 2
    assert caplog.text.count("no snapshots of Broken: asking for its tensors failed") == 1
    assert session.health()["swallowed_errors"] == {"snapshots": 1}


def test_a_second_model_changes_names_only_from_then_on(spool_dir):
    first = Net()
    ci.watch(first)
    epoch_of_nothing()
    second = Net()
    ci.watch(second)
    epoch_of_nothing()
    del second
    gc.collect()
    epoch_of_nothing()  # names do not change back
    found = names(spool_dir)
    assert found[0] == ["layer.weight", "layer.bias"]
    assert found[1][:1] == ["Net.layer.weight"]
    assert len(found[1]) == 4
    assert found[2] == ["Net.layer.weight", "Net.layer.bias"]


def test_watching_twice_is_once(spool_dir):
    model = Net()
    ci.watch(model)
    ci.watch(model)
    epoch_of_nothing()
    assert names(spool_dir) == [["layer.weight", "layer.bias"]]


def test_a_dead_model_goes_silently(spool_dir, caplog):
    model, other = Net(), make_model()
    gone = weakref.ref(model)
    ci.watch(model)
    ci.watch(other)
    del model
    gc.collect()
    assert gone() is None
    epoch_of_nothing()
    assert names(spool_dir) == [NAMES]
    assert not caplog.records


def test_a_model_seen_in_training_is_not_kept_alive(spool_dir):
    loop = Loop(2)
    gone = weakref.ref(loop.model)
    loop.epoch()
    del loop
    gc.collect()
    assert gone() is None


def test_shutdown_lets_go_of_everything(spool_dir):
    ci.watch(Net.__new__(Net))  # not even initialised
    model = Net()
    ci.watch(model)
    ci.shutdown()
    assert weakref.getweakrefcount(model) == 0
    ci.profile(frameworks=["torch"], flush_interval=3600)
    epoch_of_nothing()
    assert names(spool_dir) == []


def test_watched_before_profile(spool_dir):
    ci.shutdown()
    model = Net()
    ci.watch(model)
    ci.profile(frameworks=["torch"], flush_interval=3600)
    epoch_of_nothing()
    assert names(spool_dir) == [["layer.weight", "layer.bias"]]


def test_without_recording_nothing_happens(caplog):
    ci.shutdown()
    ci.profile(enabled=False)
    model = Net()
    ci.watch(model)
    assert weakref.getweakrefcount(model) == 0
    ci.shutdown()
    assert not caplog.records


@pytest.mark.parametrize("bad", [None, 3, "model", object()])
def test_what_is_no_model_gives_a_warning(spool_dir, caplog, bad):
    ci.watch(bad)
    epoch_of_nothing()
    assert names(spool_dir) == []
    assert any("watch" in record.message for record in caplog.records)


def test_a_model_that_cannot_be_referred_to_weakly(spool_dir):
    class Slotted:
        __slots__ = ("tensor",)

        def __init__(self):
            self.tensor = torch.ones(3)

        def named_parameters(self):
            yield "tensor", self.tensor

    ci.watch(Slotted())
    epoch_of_nothing()
    assert names(spool_dir) == [["tensor"]]


# -- without watch --


def test_no_model_is_reported_once(spool_dir, caplog):
    caplog.set_level("INFO")
    epoch_of_nothing()
    epoch_of_nothing()
    assert names(spool_dir) == []
    assert (
        len([r for r in caplog.records if "no model of torch or Keras is known" in r.message]) == 1
    )


def test_parts_that_are_called_by_themselves(spool_dir):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x):
            return self.b(self.a(x))

    loop = Loop(2)
    loop.model = Pair()
    for x, _ in loop.loader:
        loop.model.a(x)
        loop.model(x).sum().backward()
    assert names(spool_dir) == [["a.weight", "a.bias", "b.weight", "b.bias"]]


def test_a_model_in_evaluation_mode_is_not_the_one(spool_dir):
    teacher = Net().eval()
    loop = Loop(2)
    loop.model.train()
    for x, y in loop.loader:
        with torch.no_grad():
            teacher(x)
        loop.step(x, y)
    assert names(spool_dir) == [NAMES]


def test_compiled_and_wrapped_models_have_the_names_of_the_program(spool_dir):
    model = make_model()
    compiled = torch.compile(model, backend="eager")
    parallel = nn.DataParallel(compiled)
    ci.watch(parallel)
    epoch_of_nothing()
    assert names(spool_dir) == [NAMES]


def test_names_are_those_of_named_parameters(spool_dir):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = nn.Linear(2, 2)
            self.again = self.shared
            self.tied = nn.Linear(2, 2, bias=False)
            self.tied.weight = self.shared.weight
            self.own = nn.Parameter(torch.ones(2))
            self.register_parameter("none", None)
            self.none_either = None
            self.deep = nn.ModuleDict(
                {"a b": nn.ModuleList([nn.Linear(1, 1)]), "ü": nn.Linear(1, 1)}
            )
            self.register_buffer("buffer", torch.ones(3))

    model = Odd()
    ci.watch(model)
    epoch_of_nothing()
    assert names(spool_dir) == [[name for name, _ in model.named_parameters()]]


def test_a_model_with_its_own_named_parameters(spool_dir):
    class Own(Net):
        def named_parameters(self, *args, **kwargs):
            for name, parameter in super().named_parameters(*args, **kwargs):
                yield f"my.{name}", parameter

    model = Own()
    ci.watch(model)
    epoch_of_nothing()
    assert names(spool_dir) == [["my.layer.weight", "my.layer.bias"]]


def test_a_scripted_model(spool_dir):
    model = torch.jit.script(Net())
    ci.watch(model)
    epoch_of_nothing()
    assert names(spool_dir) == [["layer.weight", "layer.bias"]]
