"""The transformers hook, against the real Trainer; models are built here, nothing is downloaded."""

import copy
import logging
import pickle

import cirron as ci
import pytest
from child_process import run_python
from trees import line, spans
from trees import sketch as tree

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from small_net import CHECK, STEP, Net, Rows  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402


def arguments(tmp_path, **given):
    values = {
        "output_dir": str(tmp_path / "out"),
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 2,
        "num_train_epochs": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return TrainingArguments(**values | given)


def trainer(tmp_path, kind=Trainer, callbacks=None, rows=4, **given):
    return kind(
        model=Net(),
        args=arguments(tmp_path, **given),
        train_dataset=Rows(rows),
        eval_dataset=Rows(4),
        callbacks=callbacks,
    )


def marks(span, kind="point"):
    found = {}
    for mark in span["marks"]:
        if mark["kind"] == kind:
            assert mark["name"] not in found, f"{mark['name']} twice on {span['name']}"
            found[mark["name"]] = mark["value"]
    return found


def plain_loop(before_step=lambda: None):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2):
        model(x).sum().backward()
        before_step()
        optimizer.step()


# -- the tree --------------------------------------------------------------------------------------


def test_train_with_evaluation_each_epoch(memory, tmp_path):
    trainer(tmp_path, eval_strategy="epoch").train()
    assert tree() == (
        f"train(epoch[0](step[0]{STEP} step[1]{STEP} {CHECK}) "
        f"epoch[1](step[2]{STEP} step[3]{STEP} {CHECK}))"
    )


def test_evaluation_by_steps_lies_beside_the_steps(memory, tmp_path):
    trainer(
        tmp_path, eval_strategy="steps", eval_steps=1, eval_on_start=True, num_train_epochs=1
    ).train()
    assert tree() == f"train({CHECK} epoch[0](step[0]{STEP} {CHECK} step[1]{STEP} {CHECK}))"


def test_max_steps_cuts_the_last_epoch(memory, tmp_path):
    trainer(tmp_path, max_steps=3).train()
    assert tree() == (f"train(epoch[0](step[0]{STEP} step[1]{STEP}) epoch[1](step[2]{STEP}))")


def test_gradient_accumulation_is_one_step(memory, tmp_path):
    # Three batches an epoch: the last step has one only.
    trainer(
        tmp_path, rows=6, gradient_accumulation_steps=2, eval_strategy="epoch", num_train_epochs=2
    ).train()
    two = "(data_load data_load forward backward forward backward optimizer_step)"
    assert tree() == (
        f"train(epoch[0](step[0]{two} step[1]{STEP} {CHECK}) "
        f"epoch[1](step[2]{two} step[3]{STEP} {CHECK}))"
    )


def test_subclass_with_its_own_loss_and_step(memory, tmp_path):
    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            with ci.scope("loss"):
                outputs = model(**inputs)
            return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

        def training_step(self, *args, **kwargs):
            with ci.scope("mine"):
                return super().training_step(*args, **kwargs)

    trainer(tmp_path, Own, num_train_epochs=1).train()
    step = "(data_load mine(loss(forward) backward) optimizer_step)"
    assert tree() == f"train(epoch[0](step[0]{step} step[1]{step}))"


def test_subclass_with_its_own_train_and_evaluate(memory, tmp_path):
    """One train and one validation each, around everything that the subclass does."""

    class Own(Trainer):
        def train(self, *args, **kwargs):
            with ci.scope("before"):
                pass
            return super().train(*args, **kwargs)

        def evaluate(self, eval_dataset=None, **kwargs):
            # As in the examples for question answering: does not call the base class.
            output = self.evaluation_loop(self.get_eval_dataloader(), description="Evaluation")
            self.log({"eval_own": 1.0})
            return output.metrics

    run = trainer(tmp_path, Own, num_train_epochs=1, eval_strategy="epoch", max_steps=1)
    run.train()
    assert tree() == f"train(before epoch[0](step[0]{STEP} {CHECK}))"
    (check,) = spans("validation")
    assert marks(check)["eval_own"] == 1.0


def test_calls_of_the_base_class_are_no_second_validation(memory, tmp_path):
    class Own(Trainer):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

        def predict(self, *args, **kwargs):
            return super().predict(*args, **kwargs)

    run = trainer(tmp_path, Own)
    run.evaluate()
    run.predict(Rows(4))
    with ci.scope("validation"):
        run.evaluate()
    assert tree() == f"{CHECK} {CHECK.replace('validation', 'predict')} {CHECK}"
    assert "eval_loss" in marks(spans("validation")[1])


def test_frozen_teacher_that_runs_first_makes_no_validation(memory, tmp_path):
    teacher = Net().eval()

    class Distilled(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            with torch.no_grad():
                teacher(**inputs)
            return model(**inputs)["loss"]

    trainer(tmp_path, Distilled, num_train_epochs=1).train()
    step = "(data_load forward:eval forward backward optimizer_step)"
    assert tree() == f"train(epoch[0](step[0]{step} step[1]{step}))"


def test_standalone_evaluate_and_predict_have_no_epoch_and_no_step(memory, tmp_path):
    run = trainer(tmp_path)
    run.evaluate()
    run.predict(Rows(4))
    assert tree() == f"{CHECK} {CHECK.replace('validation', 'predict')}"
    assert marks(spans("validation")[0])["eval_loss"] > 0
    assert marks(spans("predict")[0], "summary")["test_loss"] > 0


def test_several_evaluation_datasets_are_a_validation_each(memory, tmp_path):
    run = trainer(tmp_path)
    run.eval_dataset = {"near": Rows(4), "far": Rows(4)}
    run.evaluate()
    assert tree() == f"{CHECK} {CHECK}"
    near, far = spans("validation")
    assert near["attrs"]["prefix"] == "eval_near" and "eval_near_loss" in marks(near)
    assert far["attrs"]["prefix"] == "eval_far" and "eval_far_loss" in marks(far)


def test_user_owns_the_epochs_around_pieces_of_training(memory, tmp_path):
    run = trainer(tmp_path, num_train_epochs=1)
    for _ in ci.epochs(range(2)):
        run.train()
    piece = f"train(step[0]{STEP} step[1]{STEP})"
    assert tree() == f"epoch[0]({piece}) epoch[1]({piece})"
    for epoch in spans("epoch"):
        assert marks(epoch, "summary")["loss"] > 0


def test_train_inside_a_batch_of_the_user_opens_no_step(memory, tmp_path):
    run = trainer(tmp_path, num_train_epochs=1, max_steps=1)
    for _ in ci.batches(range(1)):
        run.train()
    assert tree() == f"batch[0](train(epoch[0]{STEP}))"


def test_train_inside_a_step_of_a_plain_loop_leaves_that_step_its_number(memory, tmp_path):
    plain_loop(before_step=trainer(tmp_path, max_steps=1).train)
    step = f"(data_load forward backward train{STEP} optimizer_step)"
    assert tree() == f"epoch[0](step[0]{step} step[1]{step})"


def test_two_trainers_one_after_the_other(memory, tmp_path):
    first = trainer(tmp_path, num_train_epochs=1)
    second = trainer(tmp_path, num_train_epochs=1)
    first.train()
    second.train()
    assert tree() == " ".join([f"train(epoch[0](step[0]{STEP} step[1]{STEP}))"] * 2)


def test_user_scopes_around_and_in_callbacks(memory, tmp_path):
    """A callback that opens and closes its scopes in pairs of events disturbs nothing."""

    class Scopes(TrainerCallback):
        def enter(self, name):
            setattr(self, name, ci.scope(name))
            getattr(self, name).__enter__()

        def leave(self, name):
            getattr(self, name).__exit__(None, None, None)

        def on_train_begin(self, *args, **kwargs):
            self.enter("my_train")

        def on_train_end(self, *args, **kwargs):
            self.leave("my_train")

        def on_epoch_begin(self, *args, **kwargs):
            self.enter("my_epoch")

        def on_epoch_end(self, *args, **kwargs):
            self.leave("my_epoch")

        def on_step_begin(self, *args, **kwargs):
            self.enter("my_step")

        def on_step_end(self, *args, **kwargs):
            self.leave("my_step")

    with ci.scope("mine"):
        trainer(tmp_path, callbacks=[Scopes()], num_train_epochs=1, eval_strategy="epoch").train()
    step = "(data_load my_step(forward backward optimizer_step))"
    assert tree() == (
        f"mine(train(my_train(epoch[0](my_epoch(step[0]{step} step[1]{step}) {CHECK}))))"
    )
    assert "loss" in marks(spans("step")[0])
    assert "eval_loss" in marks(spans("epoch")[0], "summary")


def test_scope_across_steps_is_not_closed_under_its_owner(memory, tmp_path):
    class Across(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 0:
                self.scope = ci.scope("across")
                self.scope.__enter__()

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 2:
                self.scope.__exit__(None, None, None)

    trainer(tmp_path, callbacks=[Across()], num_train_epochs=1, rows=6).train()
    inside = "forward backward optimizer_step data_load forward backward optimizer_step"
    assert tree() == f"train(epoch[0](step[0](data_load across({inside})) step[2]{STEP}))"


def test_without_the_torch_hook(tmp_path):
    ci.profile(output="none", frameworks=["transformers"])
    run = trainer(tmp_path, eval_strategy="epoch", num_train_epochs=1)
    run.train()
    run.evaluate()
    assert tree() == "train(epoch[0](step[0] step[1] validation)) validation"
    assert "loss" in marks(spans("step")[1])
    assert "eval_loss" in marks(spans("epoch")[0], "summary")


# -- values ----------------------------------------------------------------------------------------


def test_values_lie_where_they_belong(memory, tmp_path):
    run = trainer(tmp_path, eval_strategy="epoch", learning_rate=0.4, lr_scheduler_type="linear")
    run.train()
    logged = [entry for entry in run.state.log_history if "loss" in entry]
    evaluated = [entry for entry in run.state.log_history if "eval_loss" in entry]
    steps = [marks(step) for step in spans("step")]
    assert [step["loss"] for step in steps] == [entry["loss"] for entry in logged]
    assert [step["grad_norm"] for step in steps] == [entry["grad_norm"] for entry in logged]
    # The value of the step itself, not of the next one.
    assert [step["learning_rate"] for step in steps] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert [marks(check)["eval_loss"] for check in spans("validation")] == [
        entry["eval_loss"] for entry in evaluated
    ]
    for number, epoch in enumerate(spans("epoch")):
        final = marks(epoch, "summary")
        assert final["loss"] == logged[2 * number + 1]["loss"]
        assert final["eval_loss"] == evaluated[number]["eval_loss"]
        assert marks(epoch) == {}
    (train,) = spans("train")
    assert marks(train, "summary")["train_loss"] == run.state.log_history[-1]["train_loss"]
    assert spans("cirron.session")[0]["marks"] == []


def test_log_of_the_whole_epoch_lies_on_the_epoch(memory, tmp_path):
    run = trainer(tmp_path, logging_strategy="epoch")
    run.train()
    logged = [entry["loss"] for entry in run.state.log_history if "loss" in entry]
    assert [marks(epoch, "summary")["loss"] for epoch in spans("epoch")] == logged
    assert all("loss" not in marks(step) for step in spans("step"))
    assert all(marks(epoch) == {} for epoch in spans("epoch"))
    assert all("learning_rate" in marks(step) for step in spans("step"))


def test_an_epoch_without_a_log_has_no_value_of_the_one_before(memory, tmp_path):
    trainer(tmp_path, logging_steps=2, rows=2, num_train_epochs=3).train()
    assert ["loss" in marks(epoch, "summary") for epoch in spans("epoch")] == [False, True, False]


def test_evaluation_before_the_first_epoch_is_none_of_its_values(memory, tmp_path):
    trainer(tmp_path, eval_on_start=True, num_train_epochs=1).train()
    assert "eval_loss" in marks(spans("validation")[0])
    assert "eval_loss" not in marks(spans("epoch")[0], "summary")


def test_values_that_cannot_be_marks_are_left_out(memory, tmp_path, caplog):
    class Far:
        """Stands for a tensor on a GPU: reading it would make the training wait."""

        device = torch.device("cuda")

        def item(self):
            return 5.0

    class Logging(Trainer):
        def training_step(self, *args, **kwargs):
            values = {"text": "a", "number": torch.tensor(2.0), "list": [1], "far": Far()}
            # Not through log(), which would keep them for a file.
            self.callback_handler.on_log(self.args, self.state, self.control, values)
            return super().training_step(*args, **kwargs)

    trainer(tmp_path, Logging, max_steps=1, logging_strategy="no").train()
    (step,) = spans("step")
    values = marks(step)
    del values["learning_rate"]
    assert values == {"text": "a", "number": 2.0}
    assert not [record for record in caplog.records if record.name.startswith("cirron")]


# -- numbers ---------------------------------------------------------------------------------------


def test_resume_goes_on_with_the_true_numbers(memory, tmp_path):
    trainer(tmp_path, num_train_epochs=1, save_strategy="steps", save_steps=1).train()
    for checkpoint, expected in (
        # In the middle of epoch 0, and at its end.
        (1, f"train(epoch[0](step[1]{STEP}) epoch[1](step[2]{STEP} step[3]{STEP}))"),
        (2, f"train(epoch[1](step[2]{STEP} step[3]{STEP}))"),
    ):
        ci.shutdown()
        ci.profile(output="none")
        trainer(tmp_path).train(
            resume_from_checkpoint=str(tmp_path / f"out/checkpoint-{checkpoint}")
        )
        assert tree() == expected


def test_an_epoch_cut_short_does_not_repeat_its_number(memory, tmp_path):
    class Impatient(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_epoch_stop = True
            return control

    trainer(tmp_path, callbacks=[Impatient()], num_train_epochs=3).train()
    assert tree() == (
        f"train(epoch[0](step[0]{STEP}) epoch[1](step[1]{STEP}) epoch[2](step[2]{STEP}))"
    )


def test_second_attempt_with_a_smaller_batch_is_a_train_of_its_own(memory, tmp_path):
    class Tight(Trainer):
        def training_step(self, model, inputs, *args, **kwargs):
            if len(inputs["labels"]) > 3:  # 4 is tried first, then 3
                raise RuntimeError("CUDA out of memory. Tried to allocate")
            return super().training_step(model, inputs, *args, **kwargs)

    trainer(
        tmp_path,
        Tight,
        per_device_train_batch_size=4,
        auto_find_batch_size=True,
        num_train_epochs=1,
    ).train()
    trains = spans("train")
    assert len(trains) == 2
    assert line(trains[-1]).startswith("train(epoch[0](step[0](data_load forward")


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_open_when_training_raises(memory, tmp_path, error):
    class Failing(Trainer):
        broken = True

        def training_step(self, *args, **kwargs):
            if self.broken and self.state.global_step == 1:
                raise error("on purpose")
            return super().training_step(*args, **kwargs)

    run = trainer(tmp_path, Failing, num_train_epochs=1)
    with pytest.raises(error, match="on purpose"):
        run.train()
    with ci.scope("after"):
        pass
    run.broken = False
    run.train()
    plain_loop()
    whole = f"epoch[0](step[0]{STEP} step[1]{STEP})"
    failed = f"epoch[0](step[0]{STEP} step[1](data_load))"
    assert tree() == f"train({failed}) after train({whole}) {whole}"
    # An epoch that did not reach its end has no final values.
    assert marks(spans("epoch")[0], "summary") == {}


def test_nothing_stays_open_when_evaluation_raises(memory, tmp_path):
    class Failing(Trainer):
        def prediction_step(self, *args, **kwargs):
            raise ValueError("on purpose")

    run = trainer(tmp_path, Failing, num_train_epochs=1, eval_strategy="epoch")
    for call in (run.evaluate, lambda: run.predict(Rows(2)), run.train):
        with pytest.raises(ValueError, match="on purpose"):
            call()
    plain_loop()
    whole = f"step[0]{STEP} step[1]{STEP}"
    assert tree() == (
        "validation(data_load) predict(data_load) "
        f"train(epoch[0]({whole} validation(data_load))) epoch[0]({whole})"
    )


def test_a_hook_that_fails_says_so_once_and_steps_aside(memory, tmp_path, caplog, monkeypatch):
    from sonde.hooks.transformers import Run

    def fail(*args):
        raise RuntimeError("planted")

    monkeypatch.setattr(Run, "begin_step", fail)
    with caplog.at_level(logging.WARNING, "cirron.hooks.transformers"):
        trainer(tmp_path, num_train_epochs=1).train()
        trainer(tmp_path, num_train_epochs=1).train()
    (record,) = [record for record in caplog.records if record.name.startswith("cirron")]
    assert "planted" in record.getMessage()
    assert spans("step")  # torch's
    assert "!" not in tree()


# -- installing and removing -----------------------------------------------------------------------

METHODS = ("__init__", "train", "evaluate", "predict")


def test_originals_come_back(tmp_path):
    from accelerate.data_loader import DataLoaderShard

    class Own(Trainer):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

    watched = [(Trainer, name) for name in METHODS]
    watched += [(Own, "evaluate"), (DataLoaderShard, "__iter__")]
    before = [vars(owner)[name] for owner, name in watched]
    ci.profile(output="none")
    run = trainer(tmp_path, Own)
    assert all(
        vars(owner)[name] is not original
        for (owner, name), original in zip(watched, before, strict=True)
    )
    names = [type(callback).__name__ for callback in run.callback_handler.callbacks]
    assert names.count("CirronTrainerCallback") == 1
    ci.shutdown()
    assert [vars(owner)[name] for owner, name in watched] == before
    assert "CirronTrainerCallback" not in run.callback_handler.callback_list


@pytest.mark.parametrize("order", ["before", "after"])
def test_another_tool_patches_the_same_methods(tmp_path, order, monkeypatch):
    calls = []
    originals = [vars(Trainer)[name] for name in METHODS]
    for name, original in zip(METHODS, originals, strict=True):
        monkeypatch.setattr(Trainer, name, original)  # restored at the end of the test

    def patch(name):
        inner = vars(Trainer)[name]

        def method(self, *args, **kwargs):
            calls.append(name)
            return inner(self, *args, **kwargs)

        monkeypatch.setattr(Trainer, name, method)
        return method

    others = [patch(name) for name in METHODS] if order == "before" else []
    ci.profile(output="none")
    others = [patch(name) for name in METHODS] if order == "after" else others
    trainer(tmp_path, max_steps=1).train()
    assert tree() == f"train(epoch[0](step[0]{STEP}))"
    assert calls == ["__init__", "train"]
    ci.shutdown()
    assert [vars(Trainer)[name] for name in METHODS] == others
    # If a function of ours is left inside the other tool's, it does nothing.
    run = trainer(tmp_path, max_steps=1)
    run.train()
    assert "CirronTrainerCallback" not in run.callback_handler.callback_list
    # And a later session has one train, not two.
    ci.profile(output="none")
    run.train()
    assert tree() == f"train(epoch[0](step[0]{STEP}))"
    ci.shutdown()


def test_trainer_that_is_older_than_the_session(tmp_path):
    run = trainer(tmp_path, max_steps=1)
    ci.profile(output="none")
    run.train()
    assert tree() == f"train(epoch[0](step[0]{STEP}))"


def test_handle_has_the_callback_class_and_it_is_added_once(memory, tmp_path):
    (hook,) = [handle for handle in memory.hook_handles if handle.name == "transformers"]
    own = hook.CirronTrainerCallback()
    run = trainer(tmp_path, callbacks=[own], max_steps=1)
    run.train()
    ours = [each for each in run.callback_handler.callbacks if type(each) is type(own)]
    assert ours == [own]
    assert tree() == f"train(epoch[0](step[0]{STEP}))"


def test_callback_may_be_copied(memory, tmp_path):
    """Searches for hyperparameters send a Trainer to other processes."""
    run = trainer(tmp_path)
    (ours,) = [each for each in run.callback_handler.callbacks if "Cirron" in type(each).__name__]
    assert type(pickle.loads(pickle.dumps(ours))) is TrainerCallback
    assert type(copy.deepcopy(ours)) is TrainerCallback


def test_profile_imports_nothing_and_the_hook_comes_with_the_import():
    run_python(
        """
        import sys
        import cirron as ci
        handle = ci.profile(output="none")
        assert not {"torch", "transformers", "accelerate"} & set(sys.modules)
        (hook,) = [each for each in handle.hook_handles if each.name == "transformers"]
        assert not hook.active
        import transformers
        assert not hook.active  # its Trainer is imported when it is used
        from transformers import Trainer
        assert hook.active
        assert hasattr(Trainer.train, "__wrapped__")
        ci.shutdown()
        assert not hasattr(Trainer.train, "__wrapped__")
        """
    )
