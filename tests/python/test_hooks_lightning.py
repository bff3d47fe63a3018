"""The Lightning hook, through real Trainers, under both names of the package."""

import logging
import pickle
import signal
import sys
import threading
import warnings
from importlib import import_module

import cirron as ci
import pytest
from child_process import run_python
from trees import line, sketch, spans

torch = pytest.importorskip("torch")

from lightning_runs import (  # noqa: E402
    CHECK,
    STEP,
    TRAIN,
    Stream,
    make_loader,
    make_module,
    make_trainer,
    plain_loop,
    steps,
    values,
)
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

PACKAGES = ["lightning.pytorch", "pytorch_lightning"]


@pytest.fixture(params=PACKAGES)
def pl(request, fresh_process):
    """The package, with a session; what it has to say to people is not of interest here."""
    package = pytest.importorskip(request.param)
    for name in ("lightning", "pytorch_lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.manual_seed(0)
    profile()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning|torch)\b")
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield package
    ci.shutdown()


def profile(frameworks=("lightning", "torch")):
    return ci.profile(output="none", frameworks=list(frameworks), flush_interval=3600)


def assert_nothing_is_left(before):
    """Nothing is open, and a loop of one's own is torch's again."""
    plain_loop()
    with ci.scope("after"):
        pass
    found = sketch()
    assert found == f"{before} epoch[0]({steps(0)}) after".lstrip(), found
    assert "..." not in found


def callbacks_of(trainer):
    return [callback for callback in trainer.callbacks if "Sonde" in type(callback).__name__]


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
        assert [type(c).__name__ for c in trainer.callbacks].count("SondeCallback") == 1
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
    # Lightning does not tell the start of that epoch again; it shows with the first batch.
    assert sketch() == f"data_load epoch[0](step[1]({TRAIN}) step[2]{STEP})"


# -- in company --


def test_scopes_of_the_user_inside_a_step(pl):
    def training_step(self, batch, batch_idx):
        with ci.scope("mine"):
            loss = self.loss(batch)
            ci.mark("raw", loss)
        return loss

    make_trainer(pl).fit(make_module(pl, training_step=training_step), make_loader(2))
    inside = "(data_load mine(forward) backward optimizer_step)"
    assert sketch() == f"epoch[0]({steps(0, 1, inside=inside)})"


def test_epochs_of_the_user_stay_the_only_ones(pl):
    def training_step(self, batch, batch_idx):
        self.log("loss", loss := self.loss(batch), on_step=False, on_epoch=True)
        return loss

    trainer = make_trainer(pl, num_sanity_val_steps=0, max_epochs=0)
    module = make_module(pl, training_step=training_step)
    for epoch in ci.epochs(range(2)):
        trainer.fit_loop.max_epochs = epoch + 1
        trainer.fit(module, make_loader(1), make_loader(1))
    inside = f"({steps(0)} validation{CHECK})"
    assert sketch() == f"epoch[0]{inside} epoch[1]{inside}"
    assert [values(span) for span in spans("epoch")] == [{"loss": "summary"}] * 2


def test_validation_of_the_user_stays_the_only_one(pl):
    with ci.scope("validation", fold=1):
        make_trainer(pl).validate(make_module(pl), make_loader(1), verbose=False)
    assert sketch() == f"validation{CHECK}"


def test_torch_loops_before_and_after(pl):
    plain_loop()
    make_trainer(pl).fit(make_module(pl), make_loader(1))
    plain_loop()
    assert sketch() == f"epoch[0]({steps(0)}) epoch[0]({steps(0)}) epoch[1]({steps(0)})"


def test_loop_without_a_loader_ends_where_a_fit_begins(pl):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    make_trainer(pl).fit(make_module(pl), make_loader(1))
    assert sketch().endswith(f") epoch[0]({steps(0)})")


def test_fit_inside_a_fit(pl):
    def on_train_epoch_start(self):
        make_trainer(pl).fit(make_module(pl), make_loader(1))

    module = make_module(pl, on_train_epoch_start=on_train_epoch_start)
    make_trainer(pl).fit(module, make_loader(1))
    # The inner one finds an epoch open: it is somebody else's.
    assert sketch() == f"epoch[0]({steps(0)} {steps(0)})"
    assert_nothing_is_left(sketch())


def test_trainers_on_two_threads(pl):
    trainers = [make_trainer(pl, max_epochs=2) for _ in range(2)]
    threads = [
        threading.Thread(target=trainer.fit, args=(make_module(pl), make_loader(2)))
        for trainer in trainers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(span["index"] for span in spans("epoch")) == [0, 0, 1, 1]
    assert {line(span).partition("(")[2] for span in spans("epoch")} == {f"{steps(0, 1)})"}


def test_without_the_torch_hook_there_are_still_epochs_and_steps(pl):
    ci.shutdown()
    profile(["lightning"])
    trainer = make_trainer(pl, max_epochs=2, num_sanity_val_steps=0)
    trainer.fit(make_module(pl), make_loader(2), make_loader(1))
    inside = "(step[0] step[1] validation)"
    assert sketch() == f"epoch[0]{inside} epoch[1]{inside}"


# -- what goes wrong --


class WantedError(Exception):
    pass


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("training_step", "epoch[0](step[0](data_load))"),
        ("on_train_epoch_start", "epoch[0]"),
        ("on_train_batch_start", "epoch[0](step[0](data_load))"),
        ("on_before_optimizer_step", "epoch[0](step[0](data_load forward backward "
                                     "optimizer_step))"),
        ("validation_step", f"epoch[0]({steps(0)} validation(data_load))"),
        ("on_train_epoch_end", f"epoch[0]({steps(0)} validation{CHECK})"),
    ],
)  # fmt: skip
def test_exception_leaves_nothing_open(pl, where, left):
    def fail(self, *args, **kwargs):
        raise WantedError

    trainer, module = make_trainer(pl, num_sanity_val_steps=0), make_module(pl, **{where: fail})
    with pytest.raises(WantedError):
        trainer.fit(module, make_loader(1), make_loader(1))
    assert sketch() == left
    module.train()  # torch's hook takes a model that is left in evaluation mode for a sign
    assert_nothing_is_left(left)


@pytest.mark.parametrize("loop", ["validate", "test", "predict"])
def test_exception_in_a_loop_alone(pl, loop):
    def fail(self, *args, **kwargs):
        raise WantedError

    module = make_module(pl, validation_step=fail, test_step=fail, predict_step=fail)
    with pytest.raises(WantedError):
        getattr(make_trainer(pl), loop)(module, make_loader(1))
    assert_nothing_is_left({"validate": "validation"}.get(loop, loop) + "(data_load)")


def test_keyboard_interrupt(pl):
    def training_step(self, batch, batch_idx):
        raise KeyboardInterrupt

    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises((SystemExit, KeyboardInterrupt)):
            make_trainer(pl).fit(make_module(pl, training_step=training_step), make_loader(1))
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning has it ignored
    assert_nothing_is_left("epoch[0](step[0](data_load))")


def test_failure_of_the_hook_is_told_once_and_training_goes_on(pl, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise RuntimeError("as asked for")

    monkeypatch.setattr("sonde._core.loops.open_step", fail)
    trainer = make_trainer(pl, max_epochs=2)
    with caplog.at_level(logging.WARNING, logger="cirron.hooks.lightning"):
        trainer.fit(make_module(pl), make_loader(2))
    assert trainer.global_step == 4
    (record,) = [r for r in caplog.records if r.name == "cirron.hooks.lightning"]
    assert "as asked for" in record.getMessage()
    assert "..." not in sketch()


def test_session_that_ends_during_a_fit(pl):
    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            ci.shutdown()
        return self.loss(batch)

    trainer = make_trainer(pl)
    trainer.fit(make_module(pl, training_step=training_step), make_loader(3))
    assert trainer.global_step == 3
    profile()
    assert_nothing_is_left("")


# -- logged values --


def log_everything(pl, **options):
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True, **options)
        if batch_idx == 0:
            self.log("first", 7.0)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.loss(batch))

    def on_train_epoch_end(self):
        self.log("late", 3.0)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("after", float(batch_idx))

    return make_module(
        pl,
        training_step=training_step,
        validation_step=validation_step,
        test_step=test_step,
        on_train_epoch_end=on_train_epoch_end,
        on_train_batch_end=on_train_batch_end,
    )


def test_values_lie_where_they_belong(pl):
    trainer, module = make_trainer(pl, max_epochs=2), log_everything(pl)
    trainer.fit(module, make_loader(2), make_loader(1))
    trainer.test(module, make_loader(1), verbose=False)
    point, summary = "point", "summary"
    first, second = [span["children"] for span in spans("epoch")]
    for children in (first, second):
        assert [values(span) for span in children] == [
            {"loss_step": point, "first": point, "after": point},
            {"loss_step": point, "after": point},
            {"val_loss": summary},
        ]
    assert [values(span) for span in spans("epoch")] == [
        {"loss_epoch": summary, "late": summary}
    ] * 2
    assert values(spans("validation")[0]) == {}  # the sanity check
    assert values(spans("test")[0]) == {"test_loss": summary}


def test_values_are_those_of_lightning(pl):
    trainer = make_trainer(pl)
    trainer.fit(log_everything(pl), make_loader(2), make_loader(1))
    (epoch,) = spans("epoch")
    marks = {mark["name"]: mark["value"] for mark in epoch["marks"]}
    assert marks["loss_epoch"] == trainer.callback_metrics["loss_epoch"].item()
    losses = [step["marks"][0]["value"] for step in spans("step")]
    assert sum(losses) / 2 == pytest.approx(marks["loss_epoch"])
    assert [step["marks"][-1]["value"] for step in spans("step")] == [0.0, 1.0]
    (check,) = [span for span in spans("validation") if not span["attrs"]]
    assert check["marks"][0]["value"] == trainer.callback_metrics["val_loss"].item()


def test_several_validation_loaders_are_told_apart(pl):
    def validation_step(self, batch, batch_idx, dataloader_idx):
        self.log("val_loss", self.loss(batch))

    trainer = make_trainer(pl, num_sanity_val_steps=0)
    module = make_module(pl, validation_step=validation_step)
    trainer.fit(module, make_loader(1), [make_loader(1), make_loader(1)])
    (check,) = spans("validation")
    assert set(values(check)) == {"val_loss/dataloader_idx_0", "val_loss/dataloader_idx_1"}


def test_value_that_is_not_logged_to_a_logger_is_no_mark(pl):
    make_trainer(pl).fit(log_everything(pl, logger=False), make_loader(1))
    assert values(spans("step")[0]) == {"first": "point", "after": "point"}


def test_values_on_a_device_are_read_when_lightning_reads_them(pl, monkeypatch, workdir):
    monkeypatch.setattr("sonde.hooks.lightning._is_free", lambda value: isinstance(value, float))

    def steps_with_a_loss(**options):
        log = {"prog_bar": True} if options.pop("prog_bar", False) else {}
        make_trainer(pl, **options).fit(log_everything(pl, **log), make_loader(4))
        found = [
            sum(mark["name"] == "loss_step" for mark in span["marks"])
            for span in spans("step")[-4:]
        ]
        assert "loss_epoch" in values(spans("epoch")[-1])
        return found

    loggers = import_module(f"{pl.__name__}.loggers")
    assert steps_with_a_loss(log_every_n_steps=1) == [0, 0, 0, 0]  # nobody reads
    logger = loggers.CSVLogger(workdir)
    assert steps_with_a_loss(logger=logger, log_every_n_steps=2) == [0, 1, 0, 1]
    assert steps_with_a_loss(prog_bar=True) == [1, 1, 1, 1]
    both = {"logger": loggers.CSVLogger(workdir), "log_every_n_steps": 2, "prog_bar": True}
    assert steps_with_a_loss(**both) == [1, 1, 1, 1]
