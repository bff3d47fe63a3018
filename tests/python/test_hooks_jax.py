"""Training steps that are compiled with jax.jit; jax_runs.py runs them in another process."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from child_process import run_python

if find_spec("jax") is None:
    pytest.skip("jax is not installed", allow_module_level=True)


def run_with_jax(code, directory):
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {"PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu"}
    return run_python(code, env=env, cwd=directory)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    done = run_with_jax("import jax_runs; jax_runs.main()", tmp_path_factory.mktemp("jax"))
    results = json.loads(done.stdout.splitlines()[-1])
    broken = [text for text in results.values() if isinstance(text, str) and "Traceback" in text]
    assert not broken, "\n".join(broken)
    return results


def test_function_whose_state_goes_round_is_a_step(runs):
    seen = runs["step_function"]
    assert seen["tree"].count("compiled_step") == 5  # the first call shows nothing yet
    assert "step[1](compiled_step)" in seen["tree"]
    assert seen["timing"] == ["dispatch"]
    assert seen["falls"]


def test_epoch_of_steps_that_are_not_waited_for_says_so_and_has_no_share(runs):
    said, shares = runs["what_says_that_it_is_dispatch"]
    assert said == {
        "epoch": ["dispatch"],
        "step": [None] * 3 + ["dispatch"] * 3,
        "compiled_step": ["dispatch"] * 5,
    }
    assert shares["epoch"] is None
    assert shares["cirron.session"] is not None


def test_every_way_to_call_jit(runs):
    assert runs["every_way_to_call_jit"] == [3, 6, 9, 12]


def test_functions_that_only_differentiate_or_only_go_round_are_no_steps(runs):
    assert runs["what_is_no_step"] == ""


def test_gradients_of_parameters_that_are_updated_elsewhere_are_backwards(runs):
    steps = "step[0](backward) step[1](backward) step[2]...(backward)"
    assert runs["updates_elsewhere"] == [f"epoch[0]...({steps})"] * 2


def test_gradients_over_a_loader_have_a_step_for_each_batch(runs):
    first = "step[0](data_load data_load data_load backward)"
    second = "step[0](data_load backward) step[1](data_load backward) step[2](data_load backward)"
    assert runs["updates_elsewhere_over_a_loader"] == f"epoch[0]({first}) epoch[1]({second})"


def test_epochs_end_with_their_last_batch_also_where_it_is_converted(runs):
    def epochs(name, first):
        steps = " ".join(f"step[{n}](data_load {name})" for n in range(3))
        return f"epoch[0]({first}) epoch[1]({steps}) epoch[2]({steps})"

    first = "step[0](data_load data_load compiled_step) step[1](data_load compiled_step)"
    assert runs["converted_batches"] == [
        epochs("compiled_step", first),
        epochs("backward", "step[0](data_load data_load data_load backward)"),
    ]


def test_what_comes_back_late_is_a_step_all_the_same(runs):
    assert runs["call_to_warm_up"] == "4 (compiled_step)"
    assert runs["two_models_in_turn"] == "6 (compiled_step)"
    assert runs["eight_models_in_turn"] == "6 (backward), 16 (compiled_step)"


def test_arrays_of_the_same_shape_hide_nothing(runs):
    assert runs["frozen_arrays_come_first"] == "3 (compiled_step)"


def test_gradients_of_an_evaluation_are_in_no_step(runs):
    assert runs["evaluation_that_differentiates"] == "8 (compiled_step)"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("state_with_more_than_parameters", "4 (backward)"),
        ("statistics_that_go_round", "4 (backward)"),
        ("two_networks", "3 (backward backward)"),
        ("many_leaves", "3 (backward)"),
        ("accumulated", "24 (backward)"),
    ],
)
def test_gradients_are_known_from_their_parameters(runs, name, seen):
    assert runs[name] == seen


def test_function_inside_another_counts_once(runs):
    assert runs["one_in_another"] == 3


def test_inside_ci_epochs_and_batches_there_are_no_second_ones(runs):
    first = "epoch[0](batch[0] batch[1](compiled_step))"
    second = "epoch[1](batch[0](compiled_step) batch[1](compiled_step))"
    assert runs["in_loops_of_ours"] == f"{first} {second}"


def test_another_framework_that_is_imported_in_a_loop_starts_no_other_count(runs):
    steps = " ".join(f"step[{i}](compiled_step)" for i in range(4))
    assert steps in runs["torch_comes_in_the_middle"]
    assert runs["torch_comes_in_the_middle"].count("epoch") == 1


# The second call shows the hook that the function is a step.
INTERRUPTED = """
import signal
from jax_runs import X, ci, fresh, jax, spans, update
from sonde import facts

def once(framework):
    facts.use = use
    {happens}

use, facts.use = facts.use, once
step, params, caught = jax.jit(lambda p, x: update(p, x)), fresh(), 0
for _ in range(6):
    try:
        params, _ = step(params, X)
    except KeyboardInterrupt:
        caught += 1
print(caught, len(spans("compiled_step")), ci.health()["swallowed_errors"])
"""


@pytest.mark.parametrize(
    ("happens", "seen"),
    [
        ("signal.raise_signal(signal.SIGINT)", "1 4 {}"),
        ("raise RuntimeError", "0 0 {'hooks.jax': 1}"),
    ],
    ids=["Ctrl-C reaches the program", "an error is counted"],
)
def test_what_is_raised_while_the_hook_looks_at_a_function(tmp_path, happens, seen):
    done = run_with_jax(INTERRUPTED.format(happens=happens), tmp_path)
    assert done.stdout.splitlines()[-1] == seen


def test_step_that_raises(runs):
    assert runs["step_that_raises"] == {"raised": True, "ends": [True] * 3, "then": 4}


def test_backward_that_raises(runs):
    seen = runs["backward_that_raises"]
    assert seen["raised"] == "TypeError"
    assert seen["exceptions"] == [None, "TypeError", None]
    assert seen["ends"] == [True] * 3


def test_nothing_is_kept_alive(runs):
    assert runs["memory_is_not_kept"] == {"arrays": 0, "function": True}


def test_the_function_stays_what_jax_made(runs):
    assert runs["the_object_stays_what_it_is"] == {
        "type": True,
        "lowered": True,
        "mapped": [1],
        "cache": True,
    }


def test_the_originals_are_back_after_the_session(runs):
    assert runs["the_end_of_a_session"] == {
        "before": 2,
        "patched": [True, True],
        "restored": True,
        "after": 0,
        "loss": True,
    }


def test_session_that_ends_while_a_step_is_traced(runs):
    assert runs["session_that_ends_inside_a_step"] == ""


def test_epochs_over_a_loader_have_their_own_batches(runs):
    both = "step[0](data_load compiled_step) step[1](data_load compiled_step)"
    first = "epoch[0](step[0](data_load data_load compiled_step))"
    assert runs["batches_from_a_loader"] == f"{first} epoch[1]({both}) epoch[2]({both})"
