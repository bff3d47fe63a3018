"""transformers and Lightning: their models, their epochs, the gradients of their last steps."""

import cirron as ci
import pytest
from snapshot_records import gradients, places, records, same, weights

torch = pytest.importorskip("torch")

AT_STEP = {"optimizer_step"}


class Used:
    """What the optimizers of a run were given, step by step."""

    def __init__(self, monkeypatch):
        self.steps = []
        original = torch.optim.SGD.step

        def step(optimizer, closure=None):
            loss = original(optimizer, closure)
            found = [p.grad.clone() for group in optimizer.param_groups for p in group["params"]]
            self.steps.append(found)
            return loss

        monkeypatch.setattr(torch.optim.SGD, "step", step)


@pytest.fixture
def used(monkeypatch):
    return Used(monkeypatch)


# -- transformers --


def trainer(tmp_path, rows=4, **given):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from small_net import Net, Rows

    model = Net()
    values = {
        "output_dir": str(tmp_path / "out"),
        "per_device_train_batch_size": 2,
        "num_train_epochs": 2,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**values | given),
        train_dataset=Rows(rows),
        eval_dataset=Rows(4),
        optimizers=(torch.optim.SGD(model.parameters(), lr=0.01), None),
    )


LAYER = ["layer.weight", "layer.bias"]


@pytest.mark.parametrize(("rows", "accumulate", "steps"), [(6, 1, 3), (8, 2, 2), (10, 2, 3)])
def test_transformers(session, tmp_path, spool_dir, used, rows, accumulate, steps):
    run = trainer(
        tmp_path, rows, gradient_accumulation_steps=accumulate, eval_strategy="epoch",
        max_grad_norm=0.5,
    )  # fmt: skip
    run.train()
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [LAYER, LAYER]
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    for number, epoch in enumerate(epochs, 1):
        expected = used.steps[number * steps - 1]
        assert all(
            same(epoch[f"{name}.grad"], value) for name, value in zip(LAYER, expected, strict=True)
        )
    assert same(epochs[1]["layer.weight"], run.model.layer.weight)


def test_transformers_that_ends_in_the_middle_of_an_epoch(session, tmp_path, spool_dir, used):
    run = trainer(tmp_path, 12, max_steps=4)
    run.train()
    (epoch,) = records(spool_dir)
    assert places(epoch) == AT_STEP
    assert same(epoch["layer.weight.grad"], used.steps[-1][0])
    assert epoch["layer.weight.grad"]["attrs"]["optimizer_step"] == 4


def test_transformers_that_loads_its_best_weights_at_the_end(session, tmp_path, spool_dir):
    seen = []
    run = trainer(
        tmp_path, 4, eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model="eval_loss", greater_is_better=True,
    )  # fmt: skip
    from transformers import TrainerCallback

    class Note(TrainerCallback):
        def on_epoch_end(self, *args, model, **kwargs):
            seen.append(model.layer.weight.detach().clone())

    run.add_callback(Note())
    run.train()
    epochs = records(spool_dir)
    assert all(same(e["layer.weight"], w) for e, w in zip(epochs, seen, strict=True))
    assert not torch.equal(seen[-1], run.model.layer.weight)


def test_transformers_inside_epochs_of_the_api(session, tmp_path, spool_dir):
    run = trainer(tmp_path, num_train_epochs=1)
    for _ in ci.epochs(range(2)):
        run.train()
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [LAYER, LAYER]


def test_transformers_that_raises(session, tmp_path, spool_dir):
    from transformers import TrainerCallback

    class Fail(TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            raise ValueError("stop")

    run = trainer(tmp_path)
    run.add_callback(Fail())
    with pytest.raises(ValueError, match="stop"):
        run.train()
    assert [weights(epoch) for epoch in records(spool_dir)] == [LAYER]


# -- Lightning --

NET = ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"]


def lightning():
    return pytest.importorskip("lightning.pytorch")


def loader(batches):
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(
        TensorDataset(torch.randn(2 * batches, 4), torch.randn(2 * batches, 1)), batch_size=2
    )


@pytest.fixture
def fit(session):
    """Runs a module with a Trainer that is made while the session lasts."""
    pl = lightning()
    from lightning_runs import make_module, make_trainer

    def run(batches=3, methods=None, data=None, **options):
        module = make_module(pl, **methods or {})
        make_trainer(pl, **{"max_epochs": 2} | options).fit(
            module, data or loader(batches), loader(2)
        )
        return module

    return run


def test_lightning(fit, spool_dir, used):
    module = fit(3, gradient_clip_val=0.01)
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [NET, NET]
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    for number, epoch in enumerate(epochs, 1):
        expected = used.steps[3 * number - 1]
        assert all(same(epoch[f"{n}.grad"], v) for n, v in zip(NET, expected, strict=True))
    assert same(epochs[1]["net.0.weight"], module.net[0].weight)


@pytest.mark.parametrize("options", [{"accumulate_grad_batches": 2}, {"limit_train_batches": 2}])
def test_lightning_steps_that_are_not_batches(fit, spool_dir, used, options):
    fit(5, **options)
    steps = len(used.steps) // 2
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]
    assert same(epochs[0]["net.0.weight.grad"], used.steps[steps - 1][0])
    assert same(epochs[1]["net.0.weight.grad"], used.steps[-1][0])


def test_lightning_with_manual_optimization(fit, spool_dir):
    pl = lightning()

    def init(self):
        pl.LightningModule.__init__(self)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
        )
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()
        optimizer.zero_grad()

    fit(2, {"__init__": init, "training_step": training_step})
    epochs = records(spool_dir)
    assert [places(epoch) for epoch in epochs] == [AT_STEP, AT_STEP]


def test_lightning_that_raises(fit, spool_dir):
    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            raise ValueError("stop")
        return self.loss(batch)

    with pytest.raises(ValueError, match="stop"):
        fit(3, {"training_step": training_step})
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NET


def test_the_model_of_a_trainer_and_one_that_is_watched(fit, spool_dir):
    teacher = torch.nn.Linear(1, 1)
    ci.watch(teacher, name="teacher")
    fit(2, max_epochs=1)
    (epoch,) = records(spool_dir)
    assert weights(epoch) == [
        "teacher.weight", "teacher.bias", *[f"Module.{name}" for name in NET],
    ]  # fmt: skip
    assert len(gradients(epoch)) == 4


def test_the_model_of_a_trainer_is_let_go(fit, spool_dir):
    import gc
    import weakref

    gone = weakref.ref(fit(2))
    gc.collect()
    assert gone() is None
