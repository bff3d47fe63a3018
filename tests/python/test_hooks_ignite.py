"""ignite's engines: loops over a loader that are in a library."""

import pytest
from trees import sketch

pytest.importorskip("torch")
pytest.importorskip("ignite")

from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import MeanSquaredError
from torch.nn.functional import mse_loss
from torch_loops import Loop, make_loader, steps

pytestmark = pytest.mark.usefixtures("hooked")

CHECK = "validation(data_load forward:eval data_load forward:eval)"


@pytest.fixture
def trainer():
    loop = Loop(3)
    made = create_supervised_trainer(loop.model, loop.optimizer, mse_loss)
    made.loop = loop
    made.evaluator = create_supervised_evaluator(loop.model, {"mse": MeanSquaredError()})
    return made


def test_evaluation_after_each_epoch(trainer):
    checks = make_loader(2)
    trainer.on(Events.EPOCH_COMPLETED)(lambda: trainer.evaluator.run(checks))
    trainer.run(trainer.loop.loader, max_epochs=2)
    assert (
        sketch().replace("...", "") == f"epoch[0]({steps(3)} {CHECK}) epoch[1]({steps(3)} {CHECK})"
    )


def test_evaluation_in_the_middle_of_an_epoch(trainer):
    checks = make_loader(2)
    trainer.on(Events.ITERATION_COMPLETED(every=2))(lambda: trainer.evaluator.run(checks))
    trainer.run(trainer.loop.loader, max_epochs=1)
    assert sketch().replace("...", "") == f"epoch[0]({steps(2)} {CHECK} {steps(1, first=2)})"


def test_loader_that_is_trained_and_evaluated_with(trainer):
    data = trainer.loop.loader
    trainer.on(Events.EPOCH_COMPLETED)(lambda: trainer.evaluator.run(data))
    trainer.run(data, max_epochs=2)
    tree = sketch()
    assert tree.count("epoch[") == 2
    assert tree.count("step[") == 6
    assert tree.count("validation(") == 2
