"""The long tests use the helper modules of tests/python."""

import sys
from pathlib import Path

import cirron as ci
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))


@pytest.fixture(autouse=True)
def no_session():
    ci.shutdown()
    yield
    ci.shutdown()
