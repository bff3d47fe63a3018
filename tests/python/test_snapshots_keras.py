"""Keras on its three backends: weights under their paths, at the end of every epoch."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from child_process import run_python

if find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

PROGRAM = """
    import json, sys
    import cirron as ci
    ci.profile(flush_interval=3600)
    import keras
    import numpy as np
    from snapshot_records import records

    X = np.linspace(0, 1, 24, dtype="float32").reshape(6, 4)
    Y = X.sum(axis=1, keepdims=True)

    def build():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([
            keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ])
        model.compile("sgd", "mse")
        return model

    class Note(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.norms = []

        def on_epoch_end(self, epoch, logs=None):
            self.norms.append([float(np.linalg.norm(w)) for w in self.model.get_weights()])

    class Spoil(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.set_weights([w * 0 for w in self.model.get_weights()])

    model, note = build(), Note()
    model.fit(X, Y, batch_size=3, epochs=2, verbose=0, callbacks=[note, Spoil()],
              validation_data=(X, Y))
    model.evaluate(X, Y, verbose=0)
    for _ in ci.epochs(range(1)):
        model.fit(X, Y, batch_size=3, epochs=1, verbose=0)
    found = records(".cirron/spool")
    print(json.dumps({
        "paths": [w.path for w in model.weights],
        "norms": note.norms,
        "epochs": [
            {name: [r["stats"] and r["stats"]["norm"], r["dtype"], r["shape"], r["attrs"]]
             for name, r in epoch.items()}
            for epoch in found
        ],
    }))
"""


@pytest.fixture(scope="module", params=["torch", "jax", "tensorflow"])
def run(request, tmp_path_factory):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    directory = tmp_path_factory.mktemp(request.param)
    done = run_python(
        PROGRAM,
        flags=["-W", "ignore"],
        env={
            "KERAS_BACKEND": request.param,
            "KERAS_HOME": str(directory),
            "HOME": str(directory),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(Path(__file__).parent),
        },
        cwd=directory,
    )
    return json.loads(done.stdout.splitlines()[-1]) | {"backend": request.param}


def test_every_epoch_has_every_weight_under_its_path(run):
    assert len(run["epochs"]) == 3
    for epoch in run["epochs"]:
        assert [name for name in epoch if not name.endswith(".grad")] == run["paths"]
    assert len(set(run["paths"])) == 8
    assert all("/" in path for path in run["paths"])


def test_they_are_the_weights_before_any_callback_changes_them(run):
    for epoch, norms in zip(run["epochs"][:2], run["norms"], strict=True):
        found = [epoch[path][0] for path in run["paths"]]
        assert found == pytest.approx(norms, rel=1e-5)


def test_dtypes_and_shapes(run):
    kernel = run["epochs"][0][run["paths"][0]]
    assert kernel[1:3] == ["float32", [4, 3]]


def test_gradients_where_torch_keeps_them(run):
    found = [name for name in run["epochs"][0] if name.endswith(".grad")]
    if run["backend"] == "torch":
        assert len(found) == 6  # not those of the moving averages
        assert all(run["epochs"][0][name][3] == {"taken": "epoch_end"} for name in found)
    else:
        assert found == []
