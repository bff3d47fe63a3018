"""The transformers hook, with the real Trainer: the tree."""

import cirron as ci
import pytest
from trees import sketch as tree
from trees import spans

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from small_net import CHECK, STEP, Net, Rows  # noqa: E402
from transformers import Trainer, TrainerCallback  # noqa: E402
from transformers_runs import marks, plain_loop, trainer  # noqa: E402


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
