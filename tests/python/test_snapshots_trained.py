"""What an optimizer owns is trained: models that are found without ci.watch."""

import copy
import gc
import pickle
import weakref

import cirron as ci
import pytest
from snapshot_records import gradients, records, same, weights

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_loops import Loop, make_loader, make_model  # noqa: E402

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]
FAREWELL = "_sonde_farewell"


@pytest.fixture(autouse=True)
def session(fresh_process):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], flush_interval=3600)


def sgd(*models):
    return torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.01)


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()


def epoch_of(optimizer, forward, batches=2):
    for x, _ in make_loader(batches):
        step(optimizer, forward(x))


class Generator(nn.Linear):
    pass


class Critic(nn.Linear):
    pass


def names(spool_dir):
    return [weights(epoch) for epoch in records(spool_dir)]


# -- several models --


def test_a_model_that_fails_is_left_out_once_and_counted(session, spool_dir, caplog):
    class Broken(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            raise RuntimeError("not today")

    good, bad = make_model(), Broken(4, 4)

    def forward(x):
        with torch.no_grad():
            bad(x)
        return good(x)

    for _ in range(2):
        epoch_of(sgd(good), forward)
    assert names(spool_dir) == [NAMES] * 2
    assert caplog.text.count("no snapshots of Broken: asking for its tensors failed") == 1
    assert session.health()["swallowed_errors"] == {"snapshots": 1}


def test_two_models_have_a_namespace_each(spool_dir):
    generator, critic = Generator(4, 4), Critic(4, 1)
    first, second = sgd(critic), sgd(generator)
    for x, _ in make_loader(3):
        step(first, critic(generator(x).detach()))
        step(second, critic(generator(x)))
    (epoch,) = records(spool_dir)
    assert weights(epoch) == [
        "Critic.weight",
        "Critic.bias",
        "Generator.weight",
        "Generator.bias",
    ] or weights(epoch) == ["Generator.weight", "Generator.bias", "Critic.weight", "Critic.bias"]
    assert {name.removesuffix(".grad") for name in gradients(epoch)} == set(weights(epoch))
    assert same(epoch["Critic.weight"], critic.weight)
    assert same(epoch["Generator.weight"], generator.weight)


def test_two_models_of_one_optimizer(spool_dir):
    encoder, decoder = make_model(), make_model()[2]
    head = nn.Linear(1, 8)
    epoch_of(sgd(encoder, head, decoder), lambda x: decoder(head(encoder(x))))
    (epoch,) = records(spool_dir)
    assert weights(epoch) == [f"Sequential.{name}" for name in NAMES] + [
        "Linear.weight",
        "Linear.bias",
        "Linear_1.weight",
        "Linear_1.bias",
    ]


def test_only_what_was_trained_in_the_epoch(spool_dir):
    first, second = Loop(2), Loop(2)
    first.epoch()
    second.epoch()
    first.epoch()
    found = names(spool_dir)
    assert found[0] == NAMES  # there was no other model yet
    assert found[1] == [f"Sequential_1.{name}" for name in NAMES]
    assert found[2] == [f"Sequential.{name}" for name in NAMES]


def test_a_model_that_follows_on_a_dead_one_has_plain_names(spool_dir):
    for _ in range(3):
        loop = Loop(2)
        loop.epoch()
        del loop
        gc.collect()
    assert names(spool_dir) == [NAMES] * 3


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_target_network_is_no_model(spool_dir, mode):
    online = make_model()
    target = copy.deepcopy(online)
    getattr(target, mode)()
    optimizer = sgd(online)
    for x, _ in make_loader(2):
        with torch.no_grad():
            expected = target(x)
        step(optimizer, (online(x) - expected).square())
    assert names(spool_dir) == [NAMES]


def test_a_critic_that_only_passes_gradients_on_is_no_model(spool_dir):
    generator, critic = Generator(4, 4), Critic(4, 1)
    epoch_of(sgd(generator), lambda x: critic(generator(x)))
    assert critic.weight.grad is not None
    assert names(spool_dir) == [["weight", "bias"]]


def test_a_model_that_is_trained_in_evaluation_mode(spool_dir):
    model = make_model().eval()
    epoch_of(sgd(model), model)
    assert names(spool_dir) == [NAMES]


@pytest.mark.parametrize("count", [15, 16, 40])
def test_parts_that_are_called_while_the_model_is_built(spool_dir, count):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
            self.forward(torch.zeros(1, 4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Net()
    epoch_of(sgd(model), model)
    assert names(spool_dir) == [[name for name, _ in model.named_parameters()]]


def test_a_hundred_models_at_once(spool_dir):
    layers = [nn.Linear(4, 4) for _ in range(100)]

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x

    epoch_of(sgd(*layers), forward)
    (found,) = names(spool_dir)
    assert len(found) == 200
    assert "Linear.weight" in found
    assert "Linear_99.bias" in found


def test_a_wrapper_that_was_called_counts_before_what_it_wraps(spool_dir):
    class Wrapper(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)

    net = make_model()
    wrapper = Wrapper(net)
    optimizer = sgd(net)
    epoch_of(optimizer, net)
    epoch_of(optimizer, wrapper)
    assert names(spool_dir) == [NAMES, [f"net.{name}" for name in NAMES]]


# -- a model that is never called itself --


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = make_model(), nn.Linear(4, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def loss(self, x):
        return self.actor(x) * self.log_std.exp() + self.critic(x)


AGENT = ["log_std", *(f"actor.{name}" for name in NAMES), "critic.weight", "critic.bias"]


def test_parts_that_are_called_one_by_one(spool_dir):
    agent = Agent()
    epoch_of(sgd(agent), agent.loss)
    (epoch,) = records(spool_dir)
    assert weights(epoch) == AGENT
    assert list(gradients(epoch)) == [f"{name}.grad" for name in AGENT]


def test_the_innermost_that_has_them_all(spool_dir):
    class World(nn.Module):
        def __init__(self):
            super().__init__()
            self.agent, self.other = Agent(), nn.Linear(2, 2)

    world = World()
    epoch_of(sgd(world.agent), world.agent.loss)
    assert names(spool_dir) == [AGENT]


def test_parts_with_an_optimizer_each_are_models(spool_dir):
    agent = Agent()
    optimizers = [sgd(agent.actor), sgd(agent.critic)]
    for x, _ in make_loader(2):
        step(optimizers[0], agent.actor(x))
        step(optimizers[1], agent.critic(x))
    (found,) = names(spool_dir)
    assert set(found) == {*(f"Sequential.{n}" for n in NAMES), "Linear.weight", "Linear.bias"}


def test_forward_without_a_call(spool_dir):
    model = make_model()
    epoch_of(sgd(model), model.forward)
    assert names(spool_dir) == [NAMES]


# -- parameters in no module --


def test_a_bare_parameter(spool_dir):
    model, scale = make_model(), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([*model.parameters(), scale])
    epoch_of(optimizer, lambda x: model(x) * scale)
    (epoch,) = records(spool_dir)
    assert weights(epoch) == [*NAMES, "Adam.parameter_4"]
    assert same(epoch["Adam.parameter_4"], scale)
    assert "Adam.parameter_4.grad" in epoch


def test_a_functional_call(spool_dir):
    model = make_model()
    state = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    optimizer = torch.optim.SGD(state.values(), lr=0.01)
    epoch_of(optimizer, lambda x: torch.func.functional_call(model, state, (x,)))
    (epoch,) = records(spool_dir)
    assert weights(epoch) == [f"SGD.parameter_{i}" for i in range(4)]
    assert same(epoch["SGD.parameter_0"], state["0.weight"])


def test_names_that_the_optimizer_was_given(spool_dir):
    scale = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([("scale", scale)], lr=0.1)
    epoch_of(optimizer, lambda x: x.sum() * scale)
    assert names(spool_dir) == [["SGD.scale"]]


# -- without an optimizer --


def by_hand(model, loader):
    for x, _ in loader:
        model(x).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None


def test_an_update_by_hand(spool_dir):
    model = make_model()
    teacher = copy.deepcopy(model)
    with torch.no_grad():
        teacher(torch.ones(1, 4))
    by_hand(model, make_loader(3))
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES
    assert same(epoch["0.weight"], model[0].weight)


def test_an_update_by_hand_beside_an_optimizer_that_never_steps(spool_dir):
    other = torch.nn.Sequential(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    with torch.no_grad():
        other(torch.ones(1, 3))
    model = make_model()
    by_hand(model, make_loader(3))
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES
    assert same(epoch["0.weight"], model[0].weight)
    del optimizer


def test_an_update_by_hand_inside_of_a_function(spool_dir):
    kept = {}

    def train():
        model = make_model()
        by_hand(model, make_loader(3))
        kept["weight"] = model[0].weight.detach().clone()

    for _ in ci.epochs(range(1)):
        train()
        gc.collect()
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES
    assert same(epoch["0.weight"], kept["weight"])


# -- optimizers and models that die before their epoch ends --


def train_and_go(kept, cycle=False, order="model"):
    model = make_model()
    optimizer = sgd(model)
    for x, _ in make_loader(3):
        step(optimizer, model(x))
    kept["weight"] = model[0].weight.detach().clone()
    kept["grad"] = model[0].weight.grad.clone()
    kept["model"] = weakref.ref(model)
    kept["parameter"] = weakref.ref(model[0].weight)
    if cycle:
        optimizer.me = [optimizer, model]
    if order == "optimizer":
        del optimizer


@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("order", ["model", "optimizer"])
def test_they_were_local_to_a_function(spool_dir, cycle, order):
    kept = {}
    for _ in ci.epochs(range(1)):
        train_and_go(kept, cycle, order)
        gc.collect()
        assert kept["model"]() is None  # nothing was kept alive
        assert kept["parameter"]() is None
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES
    assert same(epoch["0.weight"], kept["weight"])
    assert same(epoch["0.weight.grad"], kept["grad"])


def test_they_die_while_an_exception_passes(spool_dir):
    kept = {}

    def train():
        train_and_go(kept)
        raise ValueError("stop")

    for _ in ci.epochs(range(1)):
        with pytest.raises(ValueError, match="stop"):
            train()
    (epoch,) = records(spool_dir)
    assert same(epoch["0.weight"], kept["weight"])


def test_they_die_on_another_thread(spool_dir):
    from threading import Thread

    kept = {}
    for _ in ci.epochs(range(1)):
        model = make_model()
        optimizer = sgd(model)
        for x, _ in make_loader(3):
            step(optimizer, model(x))
        kept["weight"] = model[0].weight.detach().clone()
        held = [model, optimizer]
        del model, optimizer
        thread = Thread(target=held.clear)
        thread.start()
        thread.join()
    (epoch,) = records(spool_dir)
    assert same(epoch["0.weight"], kept["weight"])


def test_a_model_that_outlives_its_optimizer(spool_dir):
    model = make_model()
    for _ in ci.epochs(range(1)):
        epoch_of(sgd(model), model)
        gc.collect()
        with torch.no_grad():
            model[0].weight.fill_(7.0)  # what counts is the end of the epoch
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES
    assert epoch["0.weight"]["stats"]["min"] == 7.0


def test_an_optimizer_for_every_task(spool_dir):
    """As in meta-learning: hundreds of them come and go in an epoch."""
    model = make_model()
    outer = sgd(model)
    for x, _ in make_loader(2):
        for _ in range(100):
            learner = copy.deepcopy(model)
            inner = sgd(learner)
            step(inner, learner(x))
        step(outer, model(x))
    (epoch,) = records(spool_dir)
    # The last learner is there, too.
    assert len(weights(epoch)) == 8
    assert any(same(epoch[n], model[0].weight) for n in epoch if n.endswith("0.weight"))
    assert any(same(epoch[n], learner[0].weight) for n in epoch if n.endswith("0.weight"))


def test_another_optimizer_at_the_address_of_a_dead_one(spool_dir):
    addresses = set()
    for _ in range(4):
        loop = Loop(2)
        addresses.add(id(loop.optimizer))
        loop.epoch()
        last = loop.model[0].weight.detach().clone()
        del loop
        gc.collect()
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [NAMES] * 4
    assert same(epochs[3]["0.weight"], last)


def test_an_optimizer_is_as_it_was(spool_dir):
    loop = Loop(2)
    before = set(vars(loop.optimizer))
    loop.epoch()
    assert FAREWELL in vars(loop.optimizer)
    assert FAREWELL not in loop.optimizer.state_dict()
    again = pickle.loads(pickle.dumps(loop.optimizer))
    assert FAREWELL not in vars(again)
    assert FAREWELL not in vars(copy.deepcopy(loop.optimizer))
    assert type(pickle.loads(pickle.dumps(vars(loop.optimizer)[FAREWELL]))) is type(None)
    ci.shutdown()
    assert FAREWELL not in vars(loop.optimizer)
    assert before <= set(vars(loop.optimizer))


def test_an_optimizer_that_copies_all_it_has(spool_dir):
    class Whole(torch.optim.SGD):
        def __getstate__(self):
            return dict(self.__dict__)

    model = make_model()
    optimizer = Whole(model.parameters(), lr=0.01)
    epoch_of(optimizer, model)
    other = copy.deepcopy(optimizer)
    shallow = copy.copy(optimizer)
    del optimizer
    gc.collect()
    step(other, model(torch.ones(1, 4)))
    step(shallow, model(torch.ones(1, 4)))
    assert len(names(spool_dir)) == 2  # the steps after it are another epoch
