"""A hook that the program removes in the middle of a training closes what it has opened."""

import textwrap

import pytest
from child_process import run_python

START = """
    import os, sys, warnings
    warnings.filterwarnings("ignore")
    sys.path.insert(0, sys.argv[1])
    import cirron as ci
    session = ci.profile(output="none")
    from trees import sketch

    def take_hooks_away():
        for hook in reversed(session.hook_handles):
            if hook.active:
                hook.uninstall()
        print("then:", sketch())
"""
PROGRAMS = {
    "lightning": """
        import lightning, torch

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, number):
                if number == 1:
                    take_hooks_away()
                return self.layer(batch).mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        trainer = lightning.Trainer(
            max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            accelerator="cpu",
        )
        trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(6, 4), 2))
    """,
    "lightning, validating": """
        import lightning, torch

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def validation_step(self, batch, number):
                take_hooks_away()

        trainer = lightning.Trainer(
            logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
        )
        trainer.validate(Model(), torch.utils.data.DataLoader(torch.ones(2, 4), 2), verbose=False)
    """,
    "transformers": """
        import torch, transformers

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def forward(self, x, labels=None):
                return {"loss": self.layer(x).mean()}

        class TakesAway(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == 1:
                    take_hooks_away()

        arguments = transformers.TrainingArguments(
            "out", num_train_epochs=2, per_device_train_batch_size=2, report_to=[],
            disable_tqdm=True, use_cpu=True, save_strategy="no",
        )
        data = [{"x": torch.ones(4), "labels": 0} for _ in range(4)]
        callbacks = [TakesAway()]
        transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=callbacks).train()
    """,
    "keras": """
        os.environ["KERAS_BACKEND"] = "jax"
        import keras, numpy

        class TakesAway(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch == 1:
                    take_hooks_away()

        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = numpy.ones((6, 4)), numpy.ones((6, 1))
        model.fit(*data, batch_size=2, epochs=2, verbose=0, callbacks=[TakesAway()])
    """,
    "tape": """
        import tensorflow as tf

        weight = tf.Variable(1.0)
        optimizer = tf.keras.optimizers.SGD()
        for number in range(3):
            with tf.GradientTape() as tape:
                loss = weight * weight
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
            if number == 1:
                take_hooks_away()
    """,
}
NEEDS = {"keras": "keras", "tape": "tensorflow", "transformers": "transformers"}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_what_is_open_ends_with_the_hook(kind, request):
    pytest.importorskip(NEEDS.get(kind, "lightning"))
    program = textwrap.dedent(START) + textwrap.dedent(PROGRAMS[kind]) + 'print("end:", sketch())\n'
    done = run_python(program, request.path.parent)
    said = [line for line in done.stdout.splitlines() if line.startswith(("then:", "end:"))]
    then, end = said[0].removeprefix("then: "), said[-1].removeprefix("end: ")
    assert ("epoch[0](" in then) or ("validation" in then)
    assert "..." not in then, "nothing is open any more"
    assert end == then, "and nothing is recorded any more"
    assert "hook" not in done.stderr
