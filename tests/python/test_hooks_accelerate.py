"""Loops written with accelerate, without a Trainer: the torch hook sees them like plain ones."""

import cirron as ci
import pytest
from child_process import run_python
from trees import sketch as tree

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from small_net import CHECK, STEP, Net, Rows  # noqa: E402


def accelerate_loop(epochs=2, batches=2, accumulation=1, dispatch=False):
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=accumulation,
        dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch or None),
    )
    model = Net()
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        torch.utils.data.DataLoader(Rows(2 * batches), batch_size=2),
    )
    check = accelerator.prepare(torch.utils.data.DataLoader(Rows(4), batch_size=2))
    for _ in range(epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        for batch in check:
            with torch.no_grad():
                model(**batch)


@pytest.mark.parametrize("dispatch", [False, True])
def test_accelerate_loop(memory, dispatch):
    """The loader fetches one batch ahead; the last step is still inside its epoch."""
    accelerate_loop(dispatch=dispatch)
    epoch = f"(step[0]{STEP} step[1]{STEP})"
    assert tree() == f"epoch[0]{epoch} {CHECK} epoch[1]{epoch} {CHECK}"


def test_accelerate_accumulates(memory):
    accelerate_loop(epochs=1, batches=3, accumulation=2)
    two = "(data_load forward backward data_load forward backward optimizer_step)"
    assert tree() == f"epoch[0](step[0]{two} step[1]{STEP}) {CHECK}"


def prepared(rows):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Rows(rows), batch_size=2)
    return accelerator, *accelerator.prepare(model, optimizer, loader)


def test_accelerate_skips_batches(memory):
    accelerator, model, optimizer, loader = prepared(rows=6)
    for batch in accelerator.skip_first_batches(loader, 1):
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
    assert tree() == f"epoch[0](step[0]{STEP} step[1]{STEP})"


def test_accelerate_loop_in_loops_of_the_user(memory):
    accelerator, model, optimizer, loader = prepared(rows=4)
    for _ in ci.epochs(range(1)):
        for batch in ci.batches(loader):
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
    batch = "(forward backward optimizer_step)"
    assert tree() == f"epoch[0](data_load batch[0]{batch} data_load batch[1]{batch})"


def test_accelerate_that_is_imported_later_is_seen(memory):
    run_python(
        """
        import cirron as ci
        ci.profile(output="none")
        import torch
        from accelerate.data_loader import DataLoaderShard
        assert hasattr(DataLoaderShard.__iter__, "__wrapped__")
        ci.shutdown()
        assert not hasattr(DataLoaderShard.__iter__, "__wrapped__")
        """
    )
