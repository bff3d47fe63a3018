"""tools/setup.sh, with a pip that only takes note of what it is told to install."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PIP = """#!/bin/bash
[[ "$*" == *"pip install"* ]] || exec {python} "$@"
echo "${{*: -1}}" >>{calls}
cat {prints}
[[ "$*" != *{broken}* ]]
"""

DOWNLOADS = """Collecting torch==2.13.0
  Downloading https://files.example/a1/torch-2.13.0-cp311-linux.whl (731.2 MB)
Progress 0 of 731200000
Progress 365600000 of 731200000
Collecting filelock
  Downloading filelock-3.0-py3-none-any.whl (12 kB)
Progress 12000 of 12000
Successfully installed filelock-3.0 torch-2.13.0
"""


@pytest.fixture
def setup(tmp_path):
    """Runs it with a package that cannot be installed; returns its status, output and calls."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("not a Debian")
    calls, python = tmp_path / "calls", tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    prints, said = tmp_path / "prints", tmp_path / "said"

    def run(*arguments, broken="nothing", pip_prints="", terminal=None):
        calls.write_text("")
        prints.write_text(pip_prints)
        paths = {"python": sys.executable, "calls": calls, "prints": prints}
        python.write_text(PIP.format(broken=broken, **paths))
        python.chmod(0o755)
        with said.open("w") as output:
            done = subprocess.run(
                [ROOT / "tools/setup.sh", *arguments],
                env=os.environ
                | {"PYTHON": sys.executable, "VENV": tmp_path / "venv", "STAMPS": tmp_path / "s"},
                stdout=terminal or output,
                stderr=subprocess.STDOUT,
                timeout=100,
            )
        return done.returncode, said.read_text(), calls.read_text().split()

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


def test_where_nothing_can_be_installed_it_is_tried_again(setup):
    status, said, calls = setup("partners", broken="install")
    assert status == 0, said
    assert setup("partners", broken="install")[2] == calls != []


def test_retry_tries_it_again(setup):
    setup("partners", broken="ipykernel")
    status, said, calls = setup("--retry", "partners")
    assert status == 0, said
    assert len(calls) == 1, "all at once"
    assert setup("--retry", "partners") == (0, "", [])


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


def test_a_large_download_has_a_line_and_nothing_else_has(setup):
    status, said, _ = setup("demo", pip_prints=DOWNLOADS)
    assert status == 0, said
    into, download = said.splitlines()
    assert into.startswith("setup: into ")
    assert download == "setup: downloading torch-2.13.0-cp311-linux.whl (731.2 MB)"


def test_a_terminal_shows_how_far_it_is(setup):
    ours, its = pty.openpty()
    status, _, _ = setup("demo", pip_prints=DOWNLOADS, terminal=its)
    os.close(its)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert status == 0, shown
    assert "365 of 731 MB" in shown
    assert "filelock" not in shown
