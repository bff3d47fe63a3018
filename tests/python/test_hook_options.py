"""Options of hooks, as a session gets them: a field of its own, not flags of the program."""

import pytest
from other_face import run

PARTS = {
    "modules": "forward",
    "backward": "backward",
    "optimizers": "optimizer_step",
    "loaders": "data_load",
}
TRAINING = """
import torch

dataset = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for x, y in torch.utils.data.DataLoader(dataset, batch_size=4):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def seen(handle):
    return {
        name for name in ("forward", "backward", "optimizer_step", "data_load")
        if handle.trace("dict", name)["span_count"]
    }
"""


@pytest.mark.parametrize("part", [None, *PARTS])
def test_a_part_of_the_torch_hook_can_be_left_out(tmp_path, part):
    run(
        TRAINING
        + f"""
options = {{}} if {part!r} is None else {{"torch": {{{part!r}: False}}}}
handle = init(output="none", frameworks=["torch"], hook_options=options)
train()
assert seen(handle) == {set(PARTS.values()) - {PARTS.get(part)}!r}, seen(handle)
""",
        cwd=tmp_path,
    )


def test_without_its_parts_the_torch_hook_replaces_nothing(tmp_path):
    run(
        TRAINING
        + f"""
from torch.utils.data import DataLoader
places = [(torch.autograd, "backward"), (torch.autograd, "grad"), (DataLoader, "__iter__"),
          (torch.optim.Optimizer, "__init__"), (torch.amp.GradScaler, "step"),
          (torch.nn.Module, "__call__")]
before = [getattr(*place) for place in places]
parts = dict.fromkeys({list(PARTS)}, False)
handle = init(output="none", frameworks=["torch"], hook_options={{"torch": parts}})
train()
assert seen(handle) == set(), seen(handle)
assert [getattr(*place) for place in places] == before
assert handle.state().hooks[0].active
""",
        cwd=tmp_path,
    )


def test_flags_of_the_program_are_no_options(tmp_path):
    run(
        TRAINING
        + """
import cirron
handle = cirron.profile({"torch": {"modules": False}}, output="none", frameworks=["torch"])
assert handle.config == {"torch": {"modules": False}}
train()
assert "forward" in seen(handle)
""",
        cwd=tmp_path,
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (3, "TypeError", "hook_options must be a mapping of mappings"),
        ({"torch": 3}, "TypeError", "hook_options must be a mapping of mappings"),
        ({"torch": {"colour": 1}}, "ValueError", "['torch']['colour']: no hook has an option"),
        ({"jax": {"modules": True}}, "ValueError", "['jax']['modules']: no hook has an option"),
        ({"torch": {"epoch_steps": 0}}, "ValueError", "must be a whole number from 1 on"),
        ({"torch": {"modules": 1}}, "ValueError", "must be True or False"),
    ],
)
def test_a_bad_option_of_a_hook_raises(tmp_path, options, error, message):
    run(
        f"""
try:
    init(hook_options={options!r})
except {error} as error:
    assert {message!r} in str(error), error
else:
    raise AssertionError("it was taken")
""",
        cwd=tmp_path,
    )
