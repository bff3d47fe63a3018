"""A loop whose end no event announces ends with the last thing in it, not with the session."""

import textwrap
import time

import cirron as ci
import pytest
from child_process import run_python
from spool_files import Spool
from trees import spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")


class Loop:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def update(self, batch=None):
        self.model(torch.ones(2, 4) if batch is None else batch).sum().backward()
        self.optimizer.step()


def without_loader():
    loop = Loop()
    for _ in range(3):
        loop.update()


def with_marks():
    loop = Loop()
    for _ in range(3):
        loop.update()
        ci.mark("loss", 0.5)


def with_a_scope_behind_each_step():
    loop = Loop()
    for _ in range(3):
        loop.update()
        with ci.scope("logging"):
            pass


def with_a_last_look():
    loop = Loop()
    for _ in range(3):
        loop.update()
    with torch.no_grad():
        loop.model(torch.ones(2, 4))


def fetched_ahead():
    loop, waiting = Loop(), []
    for batch in DataLoader(torch.ones(6, 4), 2):
        waiting.append(batch)
        if len(waiting) > 1:
            loop.update(waiting.pop(0))
    loop.update(waiting.pop(0))


def iterator_kept():
    loop = Loop()
    loop.batches = iter(DataLoader(torch.ones(6, 4), 2))
    for _ in range(2):
        loop.update(next(loop.batches))
    return loop


@pytest.mark.parametrize(
    "program",
    [
        without_loader,
        with_marks,
        with_a_scope_behind_each_step,
        with_a_last_look,
        fetched_ahead,
        iterator_kept,
    ],
)
def test_last_epoch_ends_with_the_last_step(program):
    kept = program()
    time.sleep(0.02)
    ci.shutdown()
    del kept
    (session,), found = spans("cirron.session"), [*spans("epoch"), *spans("step")]
    assert session["end_ns"] - max(span["end_ns"] for span in found) >= 20_000_000
    assert not any("sonde.closed_by" in span["attrs"] for span in found)


def test_what_an_exception_passed_through_is_left_to_the_session(workdir, spool_dir):
    program = """
        import sys
        import cirron as ci, torch
        ci.profile(path=sys.argv[1])
        weight = torch.ones(4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.sum().backward()
        optimizer.step()
        raise ValueError("no more data")
    """
    run_python(textwrap.dedent(program), spool_dir.parent, check=False)
    for name in ("epoch", "step"):
        (span,) = [span for span in Spool(spool_dir).by_id.values() if span["name"] == name]
        assert span["attrs"]["exception"] == "ValueError"
        assert span["attrs"]["sonde.closed_by"] == "shutdown"


def test_a_step_that_is_under_way_is_left_to_the_session():
    loop = Loop()
    loop.update()
    loop.model(torch.ones(2, 4)).sum().backward()
    ci.shutdown()
    assert [span["attrs"].get("sonde.closed_by") for span in spans("step")] == [None, "shutdown"]
