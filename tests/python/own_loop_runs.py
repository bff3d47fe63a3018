"""Loops without fit, with Keras and TensorFlow; test_hooks_own_loops.py checks what they leave.

On the torch backend a Keras optimizer in a torch loop, on tensorflow a GradientTape.
"""

import cirron as ci
from keras_child import BACKEND, X, Y, fit, keras, make_model, run, tree
from trees import spans


def loss_of(model, x=X, y=Y):
    return keras.ops.mean((model(x, training=True) - y) ** 2)


def leaves():
    """The names of spans without children, in order of time."""
    found = []

    def visit(span):
        for child in span["children"]:
            visit(child)
        if not span["children"]:
            found.append((span["start_ns"], span["name"]))

    for root in ci.trace(format="dict")["roots"]:
        visit(root)
    return [name for _, name in sorted(found)]


class Loop:
    """One model and its optimizer; ``step`` is an iteration as people write it."""

    def __init__(self):
        keras.utils.set_random_seed(0)
        self.model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(0.01)

    def step(self):
        weights = self.model.trainable_weights
        if BACKEND == "torch":
            import torch

            self.model.zero_grad()
            loss = loss_of(self.model, torch.tensor(X), torch.tensor(Y))
            loss.backward()
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
        else:
            from tensorflow import GradientTape

            with GradientTape() as tape:
                loss = loss_of(self.model)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss


@run
def eager():
    loop = Loop()
    losses = [float(loop.step()) for _ in range(5)]
    return {"tree": tree(whole=True), "falls": losses[-1] < losses[0]}


@run
def in_loops_of_ours():
    loop = Loop()
    for _ in ci.epochs(range(2)):
        for _ in ci.batches(range(2)):
            loop.step()
    return tree(whole=True)


@run
def optimizer_that_raises():
    loop = Loop()
    loop.step()

    class Broken(keras.optimizers.SGD):
        def update_step(self, *args, **kwargs):
            raise RuntimeError("of the user")

    loop.optimizer = Broken(0.01)
    raised = 0
    for _ in range(2):
        try:
            loop.step()
        except RuntimeError:
            raised += 1
    with ci.scope("after"):
        pass
    ends = [span["end_ns"] is not None for span in spans("optimizer_step")]
    return {"raised": raised, "ends": ends, "depth": tree(whole=True).count("after")}


@run
def building_a_model():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8)(inputs)
    joined = keras.layers.Concatenate()([hidden, keras.layers.Dense(2)(inputs)])
    model = keras.Model(inputs, keras.layers.Dense(1)(joined))
    built = tree(whole=True)
    model(X)
    return [built, tree(whole=True)]


@run
def fit_beside_it():
    """A fit has its own steps, before and after a loop."""
    loop = Loop()
    model = make_model(run_eagerly=False)
    fit(model)
    for _ in range(3):
        loop.step()
    fit(model)
    return tree(whole=True)


if BACKEND == "tensorflow":
    import tensorflow as tf

    @run
    def compiled():
        loop = Loop()
        step = tf.function(loop.step)
        losses = [float(step()) for _ in range(5)]
        predict = tf.function(lambda x: loop.model(x))
        for _ in range(3):
            predict(X)
        return {"tree": tree(whole=True), "falls": losses[-1] < losses[0]}

    @run
    def compiled_in_a_compiled():
        loop = Loop()
        inner = tf.function(loop.step)
        outer = tf.function(lambda: inner())
        for _ in range(3):
            outer()
        return tree(whole=True)

    @run
    def compiled_that_raises():
        loop = Loop()

        @tf.function
        def step(x):
            loss = loop.step()
            tf.debugging.assert_positive(x)
            return loss

        step(tf.constant(1.0))
        raised = False
        try:
            step(tf.constant(-1.0))
        except tf.errors.InvalidArgumentError:
            raised = True
        with ci.scope("after"):
            pass
        return {"raised": raised, "open": [s["end_ns"] is None for s in spans("compiled_step")]}

    @run
    def tapes():
        """Nested, persistent, asked within their own with statement, left by an exception."""
        loop = Loop()
        weights = loop.model.trainable_weights
        with tf.GradientTape() as outer, tf.GradientTape() as inner:
            loss = loss_of(loop.model)
        inner.gradient(loss, weights)
        outer.gradient(loss, weights)
        with ci.scope("persistent"), tf.GradientTape(persistent=True) as tape:
            loss = loss_of(loop.model)
            tape.gradient(loss, weights)
        try:
            with ci.scope("raises"), tf.GradientTape() as tape:
                raise RuntimeError("of the user")
        except RuntimeError:
            pass
        with ci.scope("after"):
            pass
        return [leaves(), spans("forward")[-1]["attrs"].get("exception")]

    @run
    def two_optimizers():
        """As in a GAN: two forwards, two backwards and two updates make one step."""
        first, second = Loop(), Loop()
        for _ in range(4):
            first.step()
            second.step()
        return tree(whole=True)
