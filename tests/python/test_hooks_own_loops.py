"""Loops without fit: Keras optimizers on torch, GradientTape and tf.function on TensorFlow."""

from importlib.util import find_spec

import pytest
from keras_backends import run_on_backend

if find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

PARTS = "forward backward optimizer_step"


@pytest.fixture(scope="module", params=["torch", "tensorflow"])
def runs(request, tmp_path_factory):
    """What own_loop_runs.py leaves on one backend."""
    directory = tmp_path_factory.mktemp(request.param)
    return run_on_backend(request.param, ["own_loop_runs"], directory)


@pytest.fixture
def tensorflow(runs):
    if runs["backend"] != "tensorflow":
        pytest.skip("TensorFlow only")
    return runs


def counted(tree, name):
    return tree.replace("(", " ").replace(")", " ").replace("...", "").split().count(name)


def test_updates_are_optimizer_steps_and_make_steps(runs):
    tree = runs["eager"]["tree"]
    assert counted(tree, "optimizer_step") == 5
    assert counted(tree, "backward") == 5
    assert counted(tree, "forward") == 5
    assert f"step[1]({PARTS})" in tree
    assert "epoch[0]" in tree
    assert runs["eager"]["falls"]


def test_inside_ci_epochs_and_batches_there_are_no_second_ones(runs):
    epoch = f"(batch[0]({PARTS}) batch[1]({PARTS}))"
    assert runs["in_loops_of_ours"] == f"epoch[0]{epoch} epoch[1]{epoch}"


def test_update_that_raises_ends_its_span(runs):
    assert runs["optimizer_that_raises"] == {"raised": 2, "ends": [True] * 3, "depth": 1}


def test_building_a_model_is_no_forward(runs):
    assert runs["building_a_model"] == ["", "forward" if runs["backend"] == "torch" else ""]


def test_fit_keeps_its_own_steps(runs):
    tree = runs["fit_beside_it"]
    assert counted(tree, "batch[0]") == counted(tree, "batch[1]") == 2
    assert "compiled_step" not in tree
    assert counted(tree, "optimizer_step") >= 3


def test_compiled_steps(tensorflow):
    """Only functions that train have spans; the function that predicts has none."""
    tree = tensorflow["compiled"]["tree"]
    assert counted(tree, "compiled_step") == 5
    assert "step[1](compiled_step)" in tree
    assert not any(counted(tree, name) for name in PARTS.split())
    assert tensorflow["compiled"]["falls"]


def test_compiled_step_inside_a_compiled_function_counts_once(tensorflow):
    assert counted(tensorflow["compiled_in_a_compiled"], "compiled_step") == 3


def test_compiled_step_that_raises(tensorflow):
    assert tensorflow["compiled_that_raises"] == {"raised": True, "open": [False, False]}


def test_tapes(tensorflow):
    nested, inside = ["forward", "backward", "backward"], ["forward", "backward"]
    names, exception = tensorflow["tapes"]
    assert names == [*nested, *inside, "forward", "after"]
    assert exception == "RuntimeError"


def test_two_optimizers(tensorflow):
    tree = tensorflow["two_optimizers"]
    assert counted(tree, "optimizer_step") == 8
    assert counted(tree, "backward") == 8
