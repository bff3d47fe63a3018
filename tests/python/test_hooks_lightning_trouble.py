"""The Lightning hook beside other loops and tools, and when something raises."""

import logging
import signal
import threading

import cirron as ci
import pytest
from trees import line, sketch, spans

torch = pytest.importorskip("torch")

from lightning_runs import (  # noqa: E402
    CHECK,
    assert_nothing_is_left,
    make_loader,
    make_module,
    make_trainer,
    plain_loop,
    profile,
    steps,
    values,
)
from torch import nn  # noqa: E402

# -- with other loops and tools --


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
    # The inner Trainer finds an epoch of the outer one open.
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
    module.train()  # the torch hook takes evaluation mode as a hint
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
        signal.signal(signal.SIGINT, handler)  # Lightning sets it to be ignored
    assert_nothing_is_left("epoch[0](step[0](data_load))")


def test_failure_of_the_hook_is_told_once_and_training_goes_on(pl, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise RuntimeError("as asked for")

    monkeypatch.setattr("sonde._core.loops.begin_step", fail)
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
