"""Random training programs have the tree that they say they have (loop_fuzz.py: `make fuzz-loops`
runs more of them)."""

from pathlib import Path

import loop_fuzz
import loop_programs
import pytest

FOUND = Path(__file__).with_name("loop_found.txt")  # programs whose trees were wrong once


def test_programs_that_were_wrong_once():
    wrong = []
    with loop_fuzz.frozen_heap(), loop_fuzz.quiet():
        for line in FOUND.read_text().splitlines():
            try:
                loop_fuzz.check(eval(line, vars(loop_programs)))
            except loop_fuzz.WrongTraceError as error:
                wrong.append(str(error))
    assert not wrong, wrong[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_programs(seed):
    assert loop_fuzz.fuzz(200, seed) >= 200


def test_a_wrong_tree_is_noticed(monkeypatch):
    """The program says that its evaluation was a step."""
    monkeypatch.setattr(loop_fuzz.Truth, "end_val", lambda self: None)
    program = loop_programs.Program(
        parts=(
            loop_programs.Training(
                shape="plain",
                loader="tensors",
                batches=2,
                epochs=2,
                update=loop_programs.Update(form="plain"),
                after=loop_programs.Val("full", 1, True, "off", True),
            ),
        )
    )
    with loop_fuzz.quiet(), pytest.raises(loop_fuzz.WrongTraceError):
        loop_fuzz.check(program)
