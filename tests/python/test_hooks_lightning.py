"""The Lightning hook, through real Trainers, under both names of the package."""

import pickle
import sys
from importlib import import_module

import cirron as ci
import pytest
from child_process import run_python
from trees import sketch, spans

torch = pytest.importorskip("torch")

from lightning_runs import (  # noqa: E402
    CHECK,
    PACKAGES,
    STEP,
    TRAIN,
    Stream,
    assert_nothing_is_left,
    callbacks_of,
    make_loader,
    make_module,
    make_trainer,
    profile,
    steps,
)
from torch.utils.data import DataLoader  # noqa: E402

# -- how it is attached --


def test_trainer_gets_a_callback_of_its_own_package(pl):
    (callback,) = callbacks_of(make_trainer(pl))
    assert isinstance(callback, pl.Callback)
    (other,) = set(PACKAGES) - {pl.__name__}
    if other in sys.modules:
        assert not isinstance(callback, sys.modules[other].Callback)


def test_without_the_hook_there_is_no_callback(pl):
    ci.shutdown()
    assert callbacks_of(make_trainer(pl)) == []
    profile(["torch"])
    assert callbacks_of(make_trainer(pl)) == []


def test_hook_is_active_once_the_package_is_there_and_takes_everything_back(pl):
    ci.shutdown()
    loops = import_module(f"{pl.__name__}.loops")
    connector = type(make_trainer(pl)._logger_connector)

    def looked_at():
        return [
            vars(owner)[name]
            for owner, name in [
                (loops._EvaluationLoop, "run"),
                (loops._PredictionLoop, "run"),
                (connector, "log_metrics"),
                (connector, "update_train_step_metrics"),
            ]
        ]

    before = looked_at()
    handle = profile()
    assert [hook.name for hook in handle.hook_handles if hook.active] == ["lightning", "torch"]
    assert all(now is not then for now, then in zip(looked_at(), before, strict=True))
    ci.shutdown()
    assert all(now is then for now, then in zip(looked_at(), before, strict=True))


@pytest.mark.parametrize("package", PACKAGES)
def test_profile_alone_does_not_import_it(package):
    run_python(
        f"""
        import importlib, logging, sys, warnings
        warnings.simplefilter("ignore")
        import cirron as ci
        handle = ci.profile(output="none")
        assert "lightning" in handle.installed_hooks
        assert not {{"torch", "lightning", "pytorch_lightning"}} & set(sys.modules)
        package = importlib.import_module({package!r})
        (hook,) = [hook for hook in handle.hook_handles if hook.name == "lightning"]
        assert hook.active
        trainer = package.Trainer(accelerator="cpu", logger=False)
        assert [type(c).__name__ for c in trainer.callbacks].count("CirronCallback") == 1
        """
    )


def test_callback_of_an_earlier_session_rests_and_serves_in_the_next(pl):
    trainer, module = make_trainer(pl), make_module(pl)
    ci.shutdown()
    trainer.fit(module, make_loader(1))
    profile()
    assert sketch() == ""
    trainer.fit_loop.max_epochs = 2
    trainer.fit(module, make_loader(1))
    assert sketch() == f"epoch[1]({steps(0)})"


def test_callback_survives_pickling_and_leaves_no_trace_in_checkpoints(pl, workdir):
    trainer = make_trainer(pl)
    (callback,) = callbacks_of(trainer)
    copy = pickle.loads(pickle.dumps(callback))
    assert type(copy) is type(callback)
    trainer.fit(make_module(pl), make_loader(1))
    trainer.save_checkpoint(workdir / "x.ckpt")
    saved = torch.load(workdir / "x.ckpt", weights_only=False)
    assert not any("Sonde" in key for key in saved["callbacks"])


# -- the tree --


def test_fit(pl):
    make_trainer(pl, max_epochs=2).fit(make_module(pl), make_loader(3), make_loader(1))
    epoch = f"({steps(0, 1, 2)} validation{CHECK})"
    assert sketch() == f"validation{CHECK} epoch[0]{epoch} epoch[1]{epoch}"
    assert [span["attrs"] for span in spans("validation")] == [{"sanity": True}, {}, {}]
    assert {span["attrs"]["name"] for span in spans("forward")} == {"net"}


def test_span_of_an_epoch_holds_what_happens_at_its_end(pl):
    def on_train_epoch_end(self):
        with ci.scope("report"):
            pass

    def on_validation_epoch_end(self):
        with ci.scope("summary"):
            pass

    module = make_module(
        pl, on_train_epoch_end=on_train_epoch_end, on_validation_epoch_end=on_validation_epoch_end
    )
    trainer = make_trainer(pl, max_epochs=2, num_sanity_val_steps=0)
    trainer.fit(module, make_loader(1), make_loader(1))
    inside = f"({steps(0)} validation(data_load forward:eval summary) report)"
    assert sketch() == f"epoch[0]{inside} epoch[1]{inside}"


def test_validation_in_the_middle_of_an_epoch_lies_between_its_steps(pl):
    trainer = make_trainer(pl, val_check_interval=2, num_sanity_val_steps=0)
    trainer.fit(make_module(pl), make_loader(4), make_loader(1))
    assert sketch() == (
        f"epoch[0]({steps(0, 1)} validation{CHECK} {steps(2, 3)} validation{CHECK})"
    )


def test_validate_test_and_predict_alone(pl):
    trainer, module = make_trainer(pl), make_module(pl)
    trainer.validate(module, make_loader(2), verbose=False)
    trainer.test(module, make_loader(1), verbose=False)
    trainer.predict(module, make_loader(1))
    assert sketch() == (
        f"validation(data_load forward:eval data_load forward:eval) test{CHECK} predict{CHECK}"
    )
    assert_nothing_is_left(sketch())


def test_data_of_unknown_length_is_fetched_ahead(pl):
    def make_stream():
        return DataLoader(Stream(2), batch_size=2)

    trainer = make_trainer(pl, max_epochs=2, num_sanity_val_steps=0)
    trainer.fit(make_module(pl), make_stream(), make_stream())
    check = "validation(data_load data_load forward:eval forward:eval)"
    assert sketch() == (
        # The first batch is fetched before there is an epoch.
        f"data_load epoch[0](step[0]{STEP} step[1]({TRAIN}) {check}) "
        f"epoch[1](step[0](data_load data_load {TRAIN}) step[1]({TRAIN}) {check})"
    )


def test_loader_that_is_not_of_torch(pl):
    class Batches:
        def __iter__(self):
            return iter([(torch.randn(2, 4), torch.randn(2, 1))] * 2)

    make_trainer(pl).fit(make_module(pl), Batches())
    assert sketch() == f"epoch[0]({steps(0, 1, inside=f'({TRAIN})')})"


def test_limits_leave_nothing_of_an_abandoned_loader(pl):
    trainer = make_trainer(pl, max_epochs=2, limit_train_batches=2, limit_val_batches=1)
    trainer.fit(make_module(pl), make_loader(5), make_loader(5))
    epoch = f"({steps(0, 1)} validation{CHECK})"
    assert sketch() == f"validation{CHECK} epoch[0]{epoch} epoch[1]{epoch}"
    assert_nothing_is_left(sketch())


def test_fast_dev_run(pl):
    trainer = make_trainer(pl, fast_dev_run=True)
    trainer.fit(make_module(pl), make_loader(5), make_loader(5))
    assert sketch() == f"epoch[0]({steps(0)} validation{CHECK})"


def test_batches_that_accumulate_are_one_step(pl):
    make_trainer(pl, accumulate_grad_batches=2).fit(make_module(pl), make_loader(5))
    two = "(data_load forward backward data_load forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(0, 2, inside=two)} {steps(4)})"


def test_optimizer_that_runs_its_closure_often(pl):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=2)

    module = make_module(pl, configure_optimizers=configure_optimizers)
    make_trainer(pl).fit(module, make_loader(2))
    (epoch,) = spans("epoch")
    for step in epoch["children"]:
        names = [span["name"] for span in step["children"]]
        assert names[0] == "data_load"
        assert len(names) > 4
        rounds = len(names) // 3
        assert names[1:] == ["forward", "backward", "optimizer_step"] * rounds


def test_manual_optimization_with_two_optimizers(pl):
    def configure_optimizers(self):
        self.automatic_optimization = False
        return [torch.optim.SGD(self.parameters(), lr=0.01) for _ in range(2)]

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    module = make_module(pl, training_step=training_step, configure_optimizers=configure_optimizers)
    make_trainer(pl).fit(module, make_loader(2))
    assert sketch() == f"epoch[0]({steps(0, 1, inside=f'(data_load {TRAIN} {TRAIN})')})"


def test_manual_optimization_of_every_second_batch(pl):
    def training_step(self, batch, batch_idx):
        self.manual_backward(self.loss(batch))
        if batch_idx % 2 == 1:
            self.optimizers().step()

    module = make_module(pl, training_step=training_step)
    module.automatic_optimization = False
    make_trainer(pl).fit(module, make_loader(4))
    two = "(data_load forward backward data_load forward backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(0, 2, inside=two)})"


def test_training_step_that_takes_the_iterator(pl):
    class Module(type(make_module(pl))):
        def training_step(self, dataloader_iter):
            batch, _, _ = next(dataloader_iter)
            return self.loss(batch)

    make_trainer(pl).fit(Module(), make_loader(2))
    assert sketch() == f"epoch[0]({steps(0, 1)})"


def test_scaler_that_skips_a_step(pl):
    plugins = import_module(f"{pl.__name__}.plugins.precision")
    scaler = torch.amp.GradScaler("cpu", init_scale=float("inf"))
    amp = plugins.MixedPrecision("16-mixed", "cpu", scaler)
    make_trainer(pl, plugins=[amp]).fit(make_module(pl), make_loader(2))
    assert sketch() == f"epoch[0]({steps(0, 1, inside='(data_load forward backward)')})"


def test_batch_that_is_skipped(pl):
    def training_step(self, batch, batch_idx):
        return None if batch_idx == 0 else self.loss(batch)

    make_trainer(pl).fit(make_module(pl, training_step=training_step), make_loader(2))
    assert sketch() == f"epoch[0](step[0](data_load optimizer_step) {steps(1)})"


def test_resumed_in_the_middle_of_an_epoch(pl, workdir):
    def on_train_batch_end(self, outputs, batch, batch_idx):
        if batch_idx == 0 and not self.trainer.ckpt_path:
            self.trainer.save_checkpoint(workdir / "middle.ckpt")

    module = make_module(pl, on_train_batch_end=on_train_batch_end)
    make_trainer(pl).fit(module, make_loader(3))
    ci.shutdown()
    profile()
    make_trainer(pl).fit(module, make_loader(3), ckpt_path=workdir / "middle.ckpt")
    # Lightning does not announce that epoch again; it opens with the first batch.
    assert sketch() == f"data_load epoch[0](step[1]({TRAIN}) step[2]{STEP})"
