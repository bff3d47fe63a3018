"""Many forwards before a backward, or without one, in loops without a loader."""

import re

import cirron as ci
import pytest
from trees import sketch

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")

STEP = "forward backward optimizer_step"


class Agent:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def act(self, times):
        return [self.model(torch.ones(1, 4)) for _ in range(times)]

    def learn(self, outputs):
        self.optimizer.zero_grad()
        sum(each.sum() for each in outputs).backward()
        self.optimizer.step()


def tree():
    """The tree at the end of the session; consecutive forwards are counted."""
    ci.shutdown()
    roots = ci.trace(format="dict")["roots"]
    assert [root["name"] for root in roots] == ["cirron.session"], "some spans are in nothing"
    text = re.sub(r"!\w+", "", sketch())
    return re.sub(r"forward(?: forward)+", lambda run: f"{run[0].count('f')}f", text)


@pytest.mark.parametrize("times", [16, 17, 40, 511])
def test_forwards_behind_the_last_step(times):
    agent = Agent()
    for _ in range(2):
        agent.learn(agent.act(1))
    agent.act(times)
    assert tree() == f"epoch[0](step[0]({STEP}) step[1]({STEP}) validation({times}f))"


def test_forwards_before_the_first_step():
    agent = Agent()
    agent.act(40)
    agent.learn(agent.act(1))
    assert tree() == f"validation(40f) epoch[0](step[0]({STEP}))"


def test_more_forwards_than_are_kept():
    """None is lost, and none becomes part of a step."""
    agent = Agent()
    agent.act(1300)
    for _ in range(3):
        agent.learn(agent.act(1))
        agent.act(600)
    found = tree()
    assert found.count(f"({STEP})") == 3
    assert sum(int(run) for run in re.findall(r"(\d+)f", found)) == 1300 + 3 * 600


def test_episodes_of_any_length():
    agent, lengths = Agent(), (7, 30, 30, 7, 60, 500)
    for length in lengths:
        agent.learn(agent.act(length))
    steps = [f"step[{i}]({n}f backward optimizer_step)" for i, n in enumerate(lengths)]
    assert tree() == f"epoch[0]({' '.join(steps)})"
