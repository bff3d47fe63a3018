"""The transformers hook: logged values, and the numbers of epochs and steps."""

import cirron as ci
import pytest
from trees import line, spans
from trees import sketch as tree

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from small_net import STEP  # noqa: E402
from transformers import Trainer, TrainerCallback  # noqa: E402
from transformers_runs import marks, trainer  # noqa: E402

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
