"""tools/setup.sh, with a pip that only takes note of what it is told to install."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PIP = """#!/bin/bash
[[ "$*" == *"pip install"* ]] || exec {python} "$@"
echo "${{*: -1}}" >>{calls}
[[ "$*" != *{broken}* ]]
"""


@pytest.fixture
def setup(tmp_path):
    """Runs it with a package that cannot be installed; returns its status, output and calls."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("not a Debian")
    calls, python = tmp_path / "calls", tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)

    def run(*arguments, broken):
        calls.write_text("")
        python.write_text(PIP.format(python=sys.executable, calls=calls, broken=broken))
        python.chmod(0o755)
        done = subprocess.run(
            [ROOT / "tools/setup.sh", *arguments],
            env=os.environ
            | {"PYTHON": sys.executable, "VENV": tmp_path / "venv", "STAMPS": tmp_path / "stamps"},
            capture_output=True,
            text=True,
            timeout=100,
        )
        return done.returncode, done.stdout + done.stderr, calls.read_text().split()

    return run


def test_what_cannot_be_installed_is_tried_once_and_named_each_time(setup):
    status, said, calls = setup("partners", broken="ipykernel")
    assert status == 0, said
    assert calls.count("ipykernel") == 1
    assert len(calls) > 10, "the others are installed one by one"
    for _ in range(2):
        status, again, calls = setup("partners", broken="ipykernel")
        assert status == 0
        assert calls == []
        assert again.splitlines() == said.splitlines()[-1:]
        assert again.endswith("(make setup tries again): ipykernel\n")


def test_retry_tries_it_again(setup):
    setup("partners", broken="ipykernel")
    status, said, calls = setup("--retry", "partners", broken="nothing")
    assert status == 0, said
    assert len(calls) == 1, "all at once"
    assert setup("--retry", "partners", broken="nothing") == (0, "", [])


def test_torch_may_be_missing_in_tests_but_not_in_the_demo(setup):
    assert setup("demo", "partners", broken="torch")[0] == 0
    assert setup("demo", "partners", broken="torch")[2] == []
    status, said, _ = setup("demo", broken="torch")
    assert status == 1
    assert "pip could not install [demo]" in said


def test_nothing_is_left_out_of_what_building_needs(setup):
    status, said, _ = setup("lint", broken="ruff")
    assert status == 1
    assert "pip could not install [lint]" in said
    assert setup("lint", broken="ruff")[2], "tried again"
