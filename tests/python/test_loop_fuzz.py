"""Random training programs have the trace that they say of themselves they should have."""

import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("hypothesis")

from loop_fuzz import fuzz

SECONDS = 20


def test_random_programs():
    """A few hundred; `python tests/python/loop_fuzz.py --minutes 60` runs as many as you like."""
    assert fuzz(300, seed=1, until=time.monotonic() + SECONDS) > 0
