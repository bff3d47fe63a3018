"""Loops with jax.jit; test_hooks_jax.py checks what they leave."""

import json
import sys
import traceback
from dataclasses import dataclass

import cirron as ci

ci.profile(output="none", flush_interval=3600)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from trees import sketch, spans  # noqa: E402

X = jnp.linspace(0.0, 1.0, 12).reshape(4, 3)


def loss_of(params, x):
    return jnp.mean((x @ params["w"] + params["b"] - 1.0) ** 2)


def update(params, x):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads), loss


def fresh():
    return {"w": jnp.zeros((3, 1)), "b": jnp.zeros(1)}


RUNS = []


def run(function):
    RUNS.append(function)
    return function


@run
def step_function():
    step, params, losses = jax.jit(lambda p, x: update(p, x)), fresh(), []
    for _ in range(6):
        params, loss = step(params, X)
        losses.append(float(loss))
    return {
        "tree": sketch(),
        "timing": sorted({span["attrs"].get("timing") for span in spans("compiled_step")}),
        "falls": losses[-1] < losses[0],
    }


@run
def every_way_to_call_jit():
    """Decorators, donation, static and keyword arguments; a tuple as the state."""

    @jax.jit
    def plain(params, x):
        return update(params, x)

    @jax.jit(static_argnames="twice")
    def static(params, x, twice=False):
        return update(*((update(params, x)[0], x) if twice else (params, x)))

    def state(carry, x):
        params, loss = update(carry[0], x)
        return params, carry[1] + loss

    counts = []
    donating = jax.jit(lambda p, x: update(p, x), donate_argnums=0)
    for call in (
        lambda p: plain(p, X),
        lambda p: static(p, x=X, twice=True),
        lambda p: donating(p, X),
    ):
        params = fresh()
        for _ in range(4):
            params, _ = call(params)
        counts.append(len(spans("compiled_step")))
    carry, step = (fresh(), jnp.zeros(())), jax.jit(state)
    for _ in range(4):
        carry = step(carry, X)
    counts.append(len(spans("compiled_step")))
    return counts


@run
def what_is_no_step():
    params = fresh()
    sensitivity = jax.jit(lambda p, x: jax.grad(loss_of)(p, x))
    curvature = jax.jit(jax.hessian(loss_of))
    noisy = jax.jit(lambda p, key, y: jax.value_and_grad(loss_of)(p, X + y)[0] + key.shape[0])
    predict = jax.jit(lambda p, x: x @ p["w"])
    simulate, position = jax.jit(lambda x: x * 0.9), X
    for _ in range(12):
        sensitivity(params, X + 1.0)  # of parameters that do not change
        curvature(params, X)
        noisy(params, jax.random.PRNGKey(1), jnp.asarray(0.5))  # new each time, no gradient
        predict(params, X)
        position = simulate(position)
    return sketch()


def stepped(params, grads):
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)


@run
def updates_elsewhere():
    """Gradients are compiled; the update is another compiled function, or not compiled."""
    trees = []
    for update_apart in (stepped, jax.jit(stepped)):
        gradients, params = jax.jit(jax.value_and_grad(loss_of)), fresh()
        losses = []
        for _ in range(5):
            loss, grads = gradients(params, X)
            params = update_apart(params, grads)
            losses.append(float(loss))
        assert losses == sorted(losses, reverse=True)
        trees.append(sketch())
        timing = {span["attrs"]["timing"] for span in [*spans("backward"), *spans("step")]}
        assert timing == {"dispatch"}
        ci.shutdown()
        ci.profile(output="none", flush_interval=3600)
    return trees


def kinds():
    """How many steps contain which spans: `3 (backward)`."""
    found = []
    for span in spans("step"):
        name = " ".join(child["name"] for child in span["children"])
        if found and found[-1][1] == name:
            found[-1][0] += 1
        else:
            found.append([1, name])
    return ", ".join(f"{count} ({name})" for count, name in found)


@run
def what_says_that_it_is_dispatch():
    """A scope that the program opens does not: the program may wait for the device in it."""
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for _ in range(3):
        with ci.scope("step"):
            params, loss = step(params, X)
            loss.block_until_ready()
    for _ in range(3):
        params, _ = step(params, X)
    said = {}
    for name in ("epoch", "step", "compiled_step"):
        said[name] = [span["attrs"].get("timing") for span in spans(name)]
    summary = ci.trace(format="dict", summary=True)
    return [said, {row["name"]: row["share_of_parent"] for row in rows(summary)}]


def rows(summary):
    todo, found = list(summary["ranks"][0]["roots"]), []
    while todo:
        found.append(todo.pop())
        todo += found[-1]["children"]
    return found


@run
def call_to_warm_up():
    @jax.jit
    def step(p, x, key):
        return update(p, x + jax.random.normal(key, x.shape))

    params = fresh()
    step(params, X, jax.random.key(0))  # the result is dropped
    for n in range(5):
        params, _ = step(params, X, jax.random.key(n + 1))
    return kinds()


@run
def two_models_in_turn():
    step, one, two = jax.jit(lambda p, x: update(p, x)), fresh(), fresh()
    for _ in range(4):
        one, _ = step(one, X)
        two, _ = step(two, X)
    return kinds()


@run
def frozen_arrays_come_first():
    """They have the same shapes as the trained ones."""
    step = jax.jit(lambda teacher, p, x: update(p, x + teacher["b"]))
    teacher, params = fresh(), fresh()
    for _ in range(4):
        params, _ = step(teacher, params, X)
    return kinds()


@run
def eight_models_in_turn():
    step, all = jax.jit(lambda p, x: update(p, x)), [fresh() for _ in range(8)]
    for _ in range(3):
        all = [step(params, X)[0] for params in all]
    return kinds()


@run
def evaluation_that_differentiates():
    """Forces are gradients of the inputs, which are different each time."""
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    forces = jax.jit(jax.grad(lambda p, x: jnp.sum((x @ p["w"]) ** 2), argnums=1))
    for _ in range(3):
        for _ in range(3):
            params, _ = step(params, X)
        for n in range(2):
            forces(params, X + n)
    return kinds()


@jax.tree_util.register_dataclass
@dataclass
class State:
    step: object
    params: object
    momenta: object


@run
def state_with_more_than_parameters():
    gradients = jax.jit(lambda s, x: jax.value_and_grad(loss_of)(s.params, x)[::-1])
    advance = jax.jit(lambda s, g: State(s.step + 1, stepped(s.params, g), s.momenta))
    state = State(jnp.array(0), fresh(), fresh())
    for _ in range(6):
        grads, _ = gradients(state, X)
        state = advance(state, grads)
    return kinds()


@run
def statistics_that_go_round():
    def with_mean(params, mean, x):
        return loss_of(params, x), mean * 0.9 + x.mean(0)

    gradients = jax.jit(jax.value_and_grad(with_mean, has_aux=True))
    params, mean = fresh(), jnp.zeros(3)
    for _ in range(6):
        (_, mean), grads = gradients(params, mean, X)
        params = stepped(params, grads)
    return kinds()


@run
def two_networks():
    one = jax.jit(jax.grad(loss_of))
    two = jax.jit(jax.grad(lambda p, x: 2.0 * loss_of(p, x)))
    first, second = fresh(), fresh()
    for _ in range(5):
        first = stepped(first, one(first, X))
        second = stepped(second, two(second, X))
    return kinds()


@run
def many_leaves():
    gradients = jax.jit(jax.value_and_grad(lambda p: sum(jnp.sum(leaf**2) for leaf in p)))
    params = [jnp.ones(n + 1) for n in range(300)]
    for _ in range(5):
        _, grads = gradients(params)
        params = stepped(params, grads)
    return kinds()


@run
def accumulated():
    gradients, params = jax.jit(jax.grad(loss_of)), fresh()
    for _ in range(4):
        grads = [gradients(params, X + n) for n in range(12)]
        params = stepped(params, jax.tree_util.tree_map(lambda *all: sum(all), *grads))
    return kinds()


@run
def one_in_another():
    inner = jax.jit(lambda p, x: update(p, x))
    outer, params = jax.jit(lambda p, x: inner(*inner(p, x)[:1], x)), fresh()
    for _ in range(4):
        params, _ = outer(params, X)
    return len(spans("compiled_step"))


@run
def in_loops_of_ours():
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for _ in ci.epochs(range(2)):
        for _ in ci.batches(range(2)):
            params, _ = step(params, X)
    return sketch()


@run
def step_that_raises():
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for _ in range(3):
        params, _ = step(params, X)
    raised = False
    try:
        step(params, jnp.zeros((4, 7)))
    except TypeError:
        raised = True
    ends = [span["end_ns"] is not None for span in spans("compiled_step")]
    params, _ = step(params, X)
    return {"raised": raised, "ends": ends, "then": len(spans("compiled_step"))}


@run
def backward_that_raises():
    gradients, params = jax.jit(jax.grad(loss_of)), fresh()
    for _ in range(3):
        params = stepped(params, gradients(params, X))
    try:
        gradients(params, jnp.zeros((4, 7)))
    except TypeError as error:
        raised = type(error).__name__
    params = stepped(params, gradients(params, X))
    seen = spans("backward")
    return {
        "raised": raised,
        "exceptions": [span["attrs"].get("exception") for span in seen],
        "ends": [span["end_ns"] is not None for span in seen],
    }


@run
def memory_is_not_kept():
    import gc
    import weakref

    step = jax.jit(lambda p, x: update(p, x))
    params, loss = step(fresh(), X)
    alive = [weakref.ref(leaf) for leaf in jax.tree_util.tree_leaves((params, loss))]
    del params, loss
    gone = weakref.ref(step)
    left = [leaf() for leaf in alive if leaf() is not None]
    del step
    gc.collect()
    return {"arrays": len(left), "function": gone() is None}


@run
def the_object_stays_what_it_is():
    kind = type(jax.jit.__wrapped__(lambda x: x))
    step = jax.jit(lambda p, x: update(p, x))
    params = fresh()
    lowered = step.lower(params, X).compile()
    for _ in range(3):
        params, _ = step(params, X)
    mapped = jax.vmap(step, in_axes=(None, 0))(params, X[None])
    return {
        "type": type(step) is kind,
        "lowered": float(lowered(params, X)[1]) == float(step(params, X)[1]),
        "mapped": list(mapped[1].shape),
        "cache": step._cache_size() > 0,
    }


@run
def the_end_of_a_session():
    """Functions that live on are restored, and are not steps of the next session."""
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for _ in range(3):
        params, _ = step(params, X)
    before = len(spans("compiled_step"))
    patched = [hasattr(jax.jit, "__wrapped__"), jax._src.api.vjp is jax.vjp]
    original = jax.jit.__wrapped__
    ci.shutdown()
    restored = jax.jit is original
    params, loss = step(params, X)
    ci.profile(output="none", flush_interval=3600)
    for _ in range(3):
        params, _ = step(params, X)
    return {
        "before": before,
        "patched": patched,
        "restored": restored,
        "after": len(spans("compiled_step")),
        "loss": float(loss) > 0,
    }


@run
def torch_comes_in_the_middle():
    assert "torch" not in sys.modules  # otherwise its hook would be installed from the beginning
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for i in range(6):
        if i == 3:
            import torch  # noqa: F401
        params, _ = step(params, X)
    return sketch()


@run
def batches_from_a_loader():
    """The first call shows nothing, so its batch looks skipped."""
    from torch.utils.data import DataLoader

    data = DataLoader([np.asarray(X)] * 4, batch_size=2, collate_fn=np.stack)
    step, params = jax.jit(lambda p, x: update(p, x)), fresh()
    for _ in range(3):
        for x in data:
            params, _ = step(params, x)
    return sketch()


@run
def converted_batches():
    """The function never gets what the loader gave."""
    import torch
    from torch.utils.data import DataLoader

    idle = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # is not used
    data = DataLoader([np.asarray(X)] * 6, batch_size=2, collate_fn=np.stack)

    def whole():
        return jax.jit(lambda p, x: update(p, x)[0])

    def apart():
        gradients = jax.jit(jax.grad(loss_of))
        return lambda p, x: stepped(p, gradients(p, x))

    trees = []
    for make in (whole, apart):
        advance, params = make(), fresh()
        for _ in range(3):
            for x in data:
                params = advance(params, jnp.asarray(x))
        trees.append(sketch())
        ci.shutdown()
        ci.profile(output="none", flush_interval=3600)
    del idle
    return trees


@run
def updates_elsewhere_over_a_loader():
    from torch.utils.data import DataLoader

    data = DataLoader([np.asarray(X)] * 6, batch_size=2, collate_fn=np.stack)
    gradients, params = jax.jit(jax.grad(loss_of)), fresh()
    for _ in range(2):
        for x in data:
            params = stepped(params, gradients(params, x))
    return sketch()


@run
def session_that_ends_inside_a_step():
    def leave(x):
        ci.shutdown()
        return x

    def traced(params, x):
        leave(x)
        return update(params, x)

    step, params = jax.jit(traced), fresh()
    for _ in range(3):
        params, _ = step(params, X)
    ci.profile(output="none", flush_interval=3600)
    return sketch()


def main():
    results = {}
    for each in RUNS:
        ci.shutdown()
        ci.profile(output="none", flush_interval=3600)
        try:
            results[each.__name__] = each()
        except Exception:
            results[each.__name__] = traceback.format_exc()
    ci.shutdown()
    json.dump(results, sys.stdout)
