"""The Keras hook, on each backend. keras_runs.py and keras_faults.py have the runs."""

from importlib.util import find_spec

import pytest
from keras_backends import run_on_backend

# Looked for, but not imported into this process.
if find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

TWO = "epoch[0](batch[0] batch[1])"
VALIDATED = "(batch[0] batch[1] validation)"


@pytest.fixture(scope="module", params=["torch", "jax", "tensorflow"])
def runs(request, tmp_path_factory):
    """What the runs on one backend left, by name."""
    directory = tmp_path_factory.mktemp(request.param)
    return run_on_backend(request.param, ["keras_runs", "keras_faults"], directory)


# -- the tree --


def test_fit(runs):
    assert runs["tree_of_a_fit"]["tree"] == f"epoch[0]{VALIDATED} epoch[1]{VALIDATED}"


def test_a_loader_of_torch_that_other_threads_iterate(runs):
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    found = runs["loader_of_torch"]
    assert len(found["steps"]) == 3
    assert found["rest"] == []
    assert found["validations"] == 1


def test_spans_of_torch_lie_inside(runs):
    """With the torch backend: no epoch, step or validation of torch's own hook."""
    if runs["backend"] != "torch":
        pytest.skip("the torch backend only")
    batch = "(forward backward optimizer_step)"
    epoch = (
        f"(data_load batch[0]{batch} data_load batch[1]{batch} "
        "validation(data_load forward:eval data_load forward:eval))"
    )
    # The data_load before it: Keras fetches a batch to build the model, which is no forward.
    assert runs["tree_of_a_fit"]["whole"] == f"data_load epoch[0]{epoch} epoch[1]{epoch}"
    assert runs["evaluate_and_predict"]["whole"] == (
        "validation(data_load data_load forward:eval) predict(data_load forward:eval)"
    )


def test_optimizer_steps_last_as_long_as_they_take(runs):
    if runs["backend"] != "torch":
        pytest.skip("the torch backend only")
    assert len(runs["slow_optimizer"]) == 2
    assert min(runs["slow_optimizer"]) > 10_000_000


def test_epochs_have_the_numbers_of_keras(runs):
    assert runs["numbering"] == "epoch[3](batch[0] batch[1]) epoch[4](batch[0] batch[1])"


def test_training_that_is_stopped(runs):
    assert runs["early_stop"] == "epoch[0](batch[0])"


def test_evaluate_and_predict(runs):
    seen = runs["evaluate_and_predict"]
    assert seen["tree"] == "validation predict"
    assert seen["marks"] == [{"loss": ["summary", seen["value"]]}]
    assert seen["shape"] == [6, 1]


def test_what_a_callback_starts(runs):
    seen = runs["from_a_callback"]
    evaluated = "epoch[0](batch[0](validation) batch[1](validation))"
    count = 2
    if runs["backend"] == "jax":
        evaluated, count = f"epoch[0]{VALIDATED}", 1
    # A fit inside an epoch opens no second one.
    assert seen["tree"] == (
        f"{evaluated} epoch[0](predict batch[0] batch[1]) "
        "epoch[0](batch[0] batch[1] batch[0] batch[1])"
    )
    assert seen["marks"] == [["loss"]] * count


def test_subclasses_that_call_super_record_once(runs):
    assert runs["subclasses"] == f"epoch[0]{VALIDATED} {TWO}"


def test_two_models(runs):
    assert runs["two_models"] == f"predict {TWO} {TWO}"


def test_several_steps_per_execution(runs):
    expected = "epoch[0](batch[0] batch[2] batch[4])"
    assert runs["several_steps_per_execution"] == (
        "refused " if runs["backend"] == "torch" else expected
    )


def test_data_that_runs_out_makes_no_batch(runs):
    assert runs["data_of_unknown_length"] == {"tree": TWO, "marks": [1, 1]}


def test_single_batches_do_no_harm(runs):
    seen = runs["single_batches"]
    assert seen["values"] == 3
    assert seen["tree"].split("epoch[0]")[-1] == TWO.removeprefix("epoch[0]")  # beside, not inside


def test_scopes_of_the_user_own_their_level(runs):
    assert runs["scopes_of_the_user"] == {
        "tree": (
            f"experiment({TWO}) {TWO} epoch[1](batch[0] batch[1]) batch[0](epoch[0]) validation"
        ),
        "epoch": ["loss"],
        "validation": ["loss"],
    }


def test_scopes_and_marks_in_callbacks(runs):
    assert runs["scopes_in_callbacks"] == {"tree": "epoch[0](mine(batch[0]))", "mark": True}


def test_scope_that_a_callback_leaves_open(runs):
    expected = "epoch[0](left!parent(batch[0] batch[1])) after"
    assert runs["scope_left_open_in_a_callback"] == expected


def test_fit_on_another_thread(runs):
    assert runs["another_thread"] == TWO


# -- time of the device --


def test_batches_that_are_not_waited_for_say_so(runs):
    """On jax the host only hands them over; the device's time comes from when they are done."""
    seen = runs["time_of_the_device"]
    if runs["backend"] != "jax":
        assert seen["timing"] == []
        return
    assert seen["timing"] == ["batch"] * 12 + ["validation"] * 2
    for epoch in seen["epochs"]:
        assert min(epoch["parts"]) >= 0
        # One after the other: no time is counted twice.
        assert 0 < sum(epoch["parts"]) <= epoch["whole"]
    assert seen["waited_for"] == []
    assert seen["after"] == [None, None]


def test_waiting_for_batches_is_not_charged_to_the_validation(runs):
    """Checks from which clock a time comes, not how long anything takes: they differ widely."""
    if runs["backend"] != "jax":
        pytest.skip("jax only")
    seen = runs["work_for_the_device"]
    assert seen["batch"]["device"] > seen["batch"]["host"]
    assert seen["validation"]["device"] < seen["validation"]["host"]
    assert seen["validation"]["device"] < seen["batch"]["device"]


def test_device_time_of_a_fit_that_raises_is_unknown_at_most(runs):
    if runs["backend"] != "jax":
        pytest.skip("jax only")
    assert runs["device_time_after_a_failure"] == {"raised": True, "known": [True, True]}


# -- metrics --


def test_metrics_of_an_epoch_are_summary_marks(runs):
    seen = runs["tree_of_a_fit"]
    for i, marks in enumerate(seen["epoch_marks"]):
        assert marks == {name: ["summary", values[i]] for name, values in seen["history"].items()}
    assert set(seen["epoch_marks"][0]) == {"loss", "val_loss"}
    assert seen["validation_marks"] == [{}, {}]


def test_metrics_of_a_batch_are_points_on_that_batch(runs):
    seen = runs["metrics_of_every_batch"]
    assert len(seen["seen"]) == 4
    assert set(seen["seen"][0]) == {"loss", "mae"}
    assert seen["marks"] == [
        {name: ["point", value] for name, value in logs.items()} for logs in seen["seen"]
    ]


def test_metrics_that_come_on_threads_of_keras(runs):
    seen = runs["threads_of_keras"]
    assert seen["elsewhere"] is (runs["backend"] != "tensorflow")
    assert seen["in_time"]  # without waiting for them
    epoch = f"({' '.join(f'batch[{i}]' for i in range(6))})"
    assert seen["tree"] == f"epoch[0]{epoch} epoch[1]{epoch}"
    assert seen["marks"] == [["loss"]] * 12


def test_metrics_of_batches_that_are_written_already(runs):
    assert runs["on_disk"] == [["loss"]] * 18


def test_no_tensor_is_read_more_often(runs):
    hooked, bare = runs["reads_of_tensors"]
    assert hooked == bare > 0


# -- the user's callbacks --


def test_callbacks_in_every_form_stay_what_they_are(runs):
    assert runs["forms_of_callbacks"] == {
        "results": {
            "none": [0, True],
            "single": [1, True],
            "list": [1, True],
            "tuple": [1, True],
            "positional": [1, True],
            "callback_list": [1, True],
        },
        "tree": " ".join([TWO] * 6),
    }
    assert runs["callback_list_while_it_runs"] == [1]


def test_wrong_arguments_fail_as_ever(runs):
    assert runs["wrong_arguments"] == {"error": True, "tree": ""}


# -- failures --


def test_fit_that_raises_leaves_nothing_open(runs):
    seen = runs["failures"]
    assert seen["raised"] == [*["RuntimeError"] * 5, "KeyboardInterrupt", "ValueError"]
    failed = (
        f"{TWO} {TWO} epoch[0]{VALIDATED} epoch[0]{VALIDATED} epoch[1]{VALIDATED} {TWO}"  # in order
    )
    assert seen["failed"] == failed
    assert seen["all"] == f"{failed} {TWO}"


def test_evaluate_and_predict_that_raise(runs):
    assert runs["failing_evaluate_and_predict"] == [2, f"validation predict {TWO}"]


def test_nothing_stays_claimed_after_a_failure(runs):
    if runs["backend"] != "torch":
        pytest.skip("the torch backend only")
    assert runs["torch_loop_after_a_failure"] == "epoch[0](batch[0]) epoch[0](step[0] step[1])"


def test_hook_that_fails_says_so_once_and_training_goes_on(runs):
    for name, seen in runs["hook_that_fails"].items():
        assert seen["epochs"] == [1, 1], name
        assert seen["messages"] == [["cirron.hooks.tensorflow", "WARNING"]], name
        assert seen["open"] == 0, name


# -- coming and going --


def test_profile_before_the_import(runs):
    """profile() imports nothing. Keras is found without tensorflow, and hooked on its import."""
    first = runs["first"]
    assert first["imported"] == []
    assert "tensorflow" in first["installed"]
    assert first["tree"] == TWO


def test_profile_after_the_import_and_the_originals_after_shutdown(runs):
    seen = [["tensorflow"], TWO]
    assert runs["restored"] == [[], seen, [], seen, [], [None, TWO], []]


def test_with_another_tool_that_replaces_the_same(runs):
    assert runs["another_patcher"] == {
        "before": f"{TWO} validation",
        "before_restored": True,
        "after": f"{TWO} validation",
        "asleep": "",
        "asleep_alone": "",
        "seen": ["before"] * 2 + ["after"] * 4,
    }


def test_session_that_ends_or_begins_in_the_middle_of_a_fit(runs):
    assert runs["shutdown_in_the_middle"] == TWO
    assert runs["profile_in_the_middle"].endswith(TWO)
    assert "..." not in runs["profile_in_the_middle"]


def test_callback_class_is_on_the_handle(runs):
    assert runs["exported_callback"] is True


def test_compiled_training_sees_nothing_of_the_optimizer_hook(runs):
    if runs["backend"] != "torch":
        pytest.skip("the torch backend only")
    assert runs["compiled_by_torch"]["replaced"] == [False, True, False]
    compiled, eager, _ = runs["compiled_by_torch"]["tree"].split("epoch[0]")[1:]
    assert "optimizer_step" not in compiled
    assert "optimizer_step" in eager
