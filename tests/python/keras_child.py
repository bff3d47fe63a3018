"""Runs Keras in one process, each run in its own session, and prints what they left.

The backend is what KERAS_BACKEND says; on tensorflow, Keras is taken from tf.keras. Everything is
done in one process because a framework takes seconds to import.
"""

import json
import os
import sys
import traceback

BACKEND = os.environ["KERAS_BACKEND"]
if BACKEND != "tensorflow":
    sys.modules["tensorflow"] = None  # not installed, as far as this process can tell

import cirron as ci  # noqa: E402

handle = ci.profile(output="none", flush_interval=3600)
FIRST = {
    "installed": handle.installed_hooks,
    "imported": [n for n in ("keras", "tensorflow", "torch", "jax") if sys.modules.get(n)],
}

if BACKEND == "tensorflow":
    import tensorflow

    keras = tensorflow.keras
else:
    import keras
import numpy as np  # noqa: E402
from trees import line  # noqa: E402

OF_TORCH = {"data_load", "forward", "backward", "optimizer_step"}
TRAINER = next(cls for cls in keras.Model.__mro__ if "fit" in vars(cls))
OPTIMIZER = next(cls for cls in keras.optimizers.Optimizer.__mro__ if "apply" in vars(cls))
X = np.linspace(0, 1, 24, dtype="float32").reshape(6, 4)
Y = X.sum(axis=1, keepdims=True)


class Callback(keras.callbacks.Callback):
    """Calls the functions given for the events, with itself, the number and the logs."""

    def __init__(self, async_safe=False, **events):
        super().__init__()
        self.async_safe = async_safe
        for name, action in events.items():

            def call(number=None, logs=None, action=action):
                return action(self, number if isinstance(number, int) else None, logs)

            setattr(self, name, call)


def make_model(cls=keras.Sequential, **options):
    keras.utils.set_random_seed(0)
    model = cls([keras.layers.Input((4,)), keras.layers.Dense(1)])
    # Compiling a graph takes longer than all the rest, so it is done only where it matters.
    model.compile("sgd", "mse", **(options or {"run_eagerly": True}))
    return model


def prune(span):
    """Without what torch's own hook adds."""
    children = [prune(child) for child in span["children"] if child["name"] not in OF_TORCH]
    return span | {"children": children}


def tree(whole=False):
    (root,) = [r for r in ci.trace(format="dict")["roots"] if r["name"] == "cirron.session"]
    if not whole:
        root = prune(root)
    return " ".join(line(child) for child in root["children"])


def marks(span):
    return {mark["name"]: (mark["kind"], mark["value"]) for mark in span["marks"]}


def fit(model=None, x=X, y=Y, **options):
    options = {"batch_size": 3, "verbose": 0} | options
    return (model or make_model()).fit(x, y, **options)


ORIGINALS = {}


def snapshot():
    """Everything that may be replaced."""
    events = [name for name in vars(keras.callbacks.CallbackList) if name.startswith("on_")]
    return {
        (owner, name): vars(owner)[name]
        for owner, names in (
            (TRAINER, ["fit", "evaluate", "predict"]),
            (keras.callbacks.CallbackList, events),
            (OPTIMIZER, ["apply"]),
        )
        for name in names
    }


def patched():
    return [
        name for (owner, name), original in ORIGINALS.items() if vars(owner)[name] is not original
    ]


RUNS = []


def run(function):
    """Its result, a JSON value, is what the tests look at."""
    RUNS.append(function)
    return function


def main():
    fit()
    results = {"first": FIRST | {"tree": tree()}}
    ci.shutdown()
    ORIGINALS.update(snapshot())
    for each in RUNS:
        ci.profile(output="none", flush_interval=3600)
        try:
            results[each.__name__] = each()
        except Exception:
            results[each.__name__] = traceback.format_exc()
        finally:
            ci.shutdown()
    print(json.dumps(results))
