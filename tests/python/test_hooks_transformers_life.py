"""The transformers hook: exceptions, installing and removing it, other tools."""

import copy
import logging
import pickle

import cirron as ci
import pytest
from child_process import run_python
from trees import sketch as tree
from trees import spans

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from small_net import STEP, Rows  # noqa: E402
from transformers import Trainer, TrainerCallback  # noqa: E402
from transformers_runs import marks, plain_loop, trainer  # noqa: E402

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
