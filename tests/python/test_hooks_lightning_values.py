"""Values that Lightning logs: on which span they are, and when they are read."""

from importlib import import_module

import pytest
from trees import spans

torch = pytest.importorskip("torch")

from lightning_runs import (  # noqa: E402
    make_loader,
    make_module,
    make_trainer,
    values,
)


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
    assert steps_with_a_loss(log_every_n_steps=1) == [0, 0, 0, 0]  # the loss is not read
    logger = loggers.CSVLogger(workdir)
    assert steps_with_a_loss(logger=logger, log_every_n_steps=2) == [0, 1, 0, 1]
    assert steps_with_a_loss(prog_bar=True) == [1, 1, 1, 1]
    both = {"logger": loggers.CSVLogger(workdir), "log_every_n_steps": 2, "prog_bar": True}
    assert steps_with_a_loss(**both) == [1, 1, 1, 1]
