"""Loops that take batches in groups, look at them without a model, leave early, or change their
optimizer on the way."""

import copy
import itertools
import re
import threading
import weakref
from collections import deque

import cirron as ci
import pytest
from trees import sketch

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")

SHORT = {
    "data_load": "d",
    "forward": "f",
    "backward": "b",
    "optimizer_step": "o",
    ":eval": "",
}


def tree():
    """The tree at the end of the session, one letter per span; `3 steps(f b o)`: three alike."""
    ci.shutdown()
    text = sketch()
    for name, letter in SHORT.items():
        text = text.replace(name, letter)
    text = re.sub(r"step\[\d+\]", "step", text)

    def count(run):
        return f"{run[0].count('step')} steps{run[1]}"

    return re.sub(r"step(\([a-z ]+\))(?: step\1)+", count, text)


def loader(batches):
    return DataLoader(torch.ones(2 * batches, 4), 2)


class Loop:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def accumulate(self, batch):
        self.model(batch).mean().backward()

    def update(self, batch=None):
        self.accumulate(torch.ones(2, 4) if batch is None else batch)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def look(self):
        with torch.no_grad():
            self.model(torch.ones(2, 4))


EPOCH = "4 steps(d f b o)"


def test_a_pass_without_a_model_is_by_itself():
    loop, batches = Loop(), loader(4)
    for batch in batches:
        batch.mean()
    for _ in range(2):
        for batch in batches:
            loop.update(batch)
    assert tree() == f"epoch[0](step(d d d d)) epoch[1]({EPOCH}) epoch[2]({EPOCH})"


def test_passes_without_a_model_between_epochs():
    loop, batches, others = Loop(), loader(4), loader(3)
    for _ in range(2):
        for batch in batches:
            loop.update(batch)
        for other in others:
            other.mean()
    looked = "step(d d d)"
    assert tree() == (f"epoch[0]({EPOCH}) epoch[1]({looked}) epoch[2]({EPOCH}) epoch[3]({looked})")


@pytest.mark.parametrize(("batches", "rest"), [(7, 1), (8, 2), (4, 1), (6, 0)])
def test_groups_of_batches(batches, rest):
    """The last group may be a smaller one."""
    loop, data = Loop(), loader(batches)
    for _ in range(2):
        fetched = iter(data)
        while group := list(itertools.islice(fetched, 3)):
            for batch in group:
                loop.accumulate(batch)
            loop.optimizer.step()
    whole = ["step(d d d f b f b f b o)", "2 steps(d d d f b f b f b o)"][batches // 3 - 1]
    steps = [whole, *(["step(" + "d " * rest + "f b " * rest + "o)"] if rest else [])]
    inside = " ".join(steps)
    assert tree() == f"epoch[0]({inside}) epoch[1]({inside})"


def test_a_loader_that_is_asked_again_when_it_has_no_more():
    """As prefetchers do that fetch again after every batch."""

    def ahead(items, count):
        items, waiting = iter(items), deque()
        waiting.extend(itertools.islice(items, count))
        while waiting:
            yield waiting.popleft()
            waiting.extend(itertools.islice(items, 1))

    loop, data, held = Loop(), loader(4), loader(1)
    for _ in range(2):
        for batch in ahead(data, 2):
            loop.update(batch)
        with torch.no_grad():
            for batch in held:
                loop.model(batch)
    steps = "step(d d f b o) 2 steps(d f b o) step(f b o)"
    assert tree() == f"epoch[0]({steps}) validation(d f) epoch[1]({steps}) validation(d f)"


def test_a_loader_that_is_asked_again_behind_its_epoch():
    loop = Loop()
    fetched = iter(loader(3))
    first, second = next(fetched), next(fetched)
    loop.update(first)
    third = next(fetched)
    loop.update(second)
    assert next(fetched, None) is None
    loop.update(third)
    loop.look()
    assert next(fetched, None) is None
    for batch in loader(2):
        loop.update(batch)
    steps = "step(d d f b o) step(d f b o) step(f b o)"
    assert tree() == f"epoch[0]({steps}) validation(f) epoch[1](2 steps(d f b o))"


SKIPS = {
    "continue": lambda data: (x for i, x in enumerate(data) if i >= 2),
    "islice": lambda data: itertools.islice(data, 2, None),
}


@pytest.mark.parametrize("skip", SKIPS.values(), ids=SKIPS)
def test_batches_that_are_skipped_are_not_fetched_ahead(skip):
    loop, data = Loop(), loader(4)
    for epoch in range(3):
        for batch in skip(data) if epoch == 0 else data:
            loop.update(batch)
    resumed = "epoch[0](step(d d d f b o) step(d f b o))"
    assert tree() == f"{resumed} epoch[1](4 steps(d f b o)) epoch[2](4 steps(d f b o))"


def test_batches_that_are_skipped_while_another_thread_reads_a_loader():
    loop, data, others = Loop(), loader(4), iter(loader(8))

    def read_another():
        with ci.scope("other"):
            next(others)

    for epoch in range(2):
        for i, batch in enumerate(data):
            if epoch == 0 and i < 2:
                continue
            thread = threading.Thread(target=read_another)
            thread.start()
            thread.join()
            loop.update(batch)
    resumed = "epoch[0](step(d d d f b o) step(d f b o))"
    text = tree()
    assert (
        re.sub(r" ?other\(.*?\)+(?= |$)", "", text).strip()
        == f"{resumed} epoch[1](4 steps(d f b o))"
    ), text


def test_batches_that_are_skipped_in_a_later_epoch():
    loop = Loop()
    data = DataLoader([{"x": torch.ones(2, 4), "y": i} for i in range(4)], batch_size=None)
    for epoch in range(3):
        for i, batch in enumerate(data):
            if epoch != 1 or i != 0:
                loop.update(batch["x"])
        loop.look()
    whole = "(4 steps(d f b o)) validation(f)"
    resumed = "epoch[1](step(d d f b o) 2 steps(d f b o)) validation(f)"
    assert tree() == f"epoch[0]{whole} {resumed} epoch[2]{whole}"


def test_what_is_fetched_ahead_is_still_told_when_the_batches_are_handed_over():
    loop, data = Loop(), loader(4)
    for _ in range(2):
        waiting = deque()
        for batch in data:
            waiting.append(batch)
            if len(waiting) > 2:
                loop.update(waiting.popleft())
        for batch in waiting:
            loop.update(batch)
    steps = "(step(d d d f b o) step(d f b o) 2 steps(f b o))"
    assert tree() == f"epoch[0]{steps} epoch[1]{steps}"


def test_a_skipped_batch_is_not_kept_alive():
    loop, kept = Loop(), []
    for i, batch in enumerate(loader(3)):
        kept.append(weakref.ref(batch))
        if i == 1:
            loop.update(batch)
    del batch
    assert [reference() for reference in kept] == [None] * 3
    for batch in loader(3):  # no batch is used
        kept.append(weakref.ref(batch))
    del batch
    assert kept[-1]() is None


def test_a_loop_that_is_left_right_behind_a_fetch_has_no_step_for_it():
    loop, data = Loop(), loader(4)
    for _ in range(2):
        for number, batch in enumerate(data):
            if number == 2:
                break
            loop.update(batch)
    assert tree() == "epoch[0](2 steps(d f b o) d) epoch[1](2 steps(d f b o) d)"


def test_the_last_batch_is_left_out():
    loop, data = Loop(), loader(4)
    for number, batch in enumerate(data):
        if number < 3:
            loop.update(batch)
    assert tree() == "epoch[0](3 steps(d f b o) d)"


def test_evaluation_before_a_batch_is_trained_with():
    loop = Loop()
    for number, batch in enumerate(loader(3)):
        if number == 1:
            loop.model.eval()
            loop.look()
            loop.model.train()
        loop.update(batch)
    assert tree() == "epoch[0](step(d f b o) d validation(f) step(f b o) step(d f b o))"


# -- optimizers that come and go, without a loader --


def test_lbfgs_behind_another_optimizer():
    loop = Loop()
    for _ in range(6):
        loop.update()
    second = torch.optim.LBFGS(loop.model.parameters(), max_iter=1)

    def closure():
        second.zero_grad()
        loss = loop.model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(4):
        second.step(closure)
    assert tree() == "epoch[0](6 steps(f b o) step(o(f b)) step(o(f b)) step(o(f b)) step(o(f b)))"


def test_a_new_optimizer_in_every_phase():
    loop = Loop()
    for _ in range(3):
        loop.optimizer = torch.optim.Adam(loop.model.parameters())
        for _ in range(4):
            loop.update()
        loop.look()
    phase = "4 steps(f b o) validation(f)"
    assert tree() == f"epoch[0]({phase} {phase} {phase})"


def test_a_new_model_in_every_trial():
    for _ in range(4):
        loop = Loop()
        for _ in range(3):
            loop.update()
        loop.look()
    trial = "3 steps(f b o) validation(f)"
    assert tree() == f"epoch[0]({trial} {trial} {trial} {trial})"


def test_copies_that_are_trained_for_a_while():
    loop = Loop()
    for _ in range(8):
        inner = copy.copy(loop)
        inner.model = copy.deepcopy(loop.model)
        inner.optimizer = torch.optim.SGD(inner.model.parameters(), lr=0.1)
        for _ in range(3):
            inner.update()
    assert tree() == "epoch[0](24 steps(f b o))"


def test_optimizers_that_lead_one_after_the_other():
    loops = [Loop() for _ in range(3)]
    for _ in range(2):
        for loop in loops:
            for _ in range(4):
                loop.update()
    assert tree() == "epoch[0](24 steps(f b o))"


def test_one_that_steps_often_behind_the_leading_one():
    policy, value = Loop(), Loop()
    for _ in range(4):
        policy.update()
        for _ in range(7):
            value.update()
    assert tree() == "epoch[0](4 steps(" + " ".join(["f b o"] * 8) + "))"
