"""tools/setup.sh, with a pip that only takes note of what it is told to install."""

import os
import pty
import re
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
[[ "$*" != *{broken}* ]] && exit
cat {errors} >&2
exit 1
"""

# The packages in $MISSING are not installed.
DPKG_QUERY = """#!/bin/bash
[[ " $MISSING " == *" ${*: -1} "* ]] || echo installed
"""
APT_GET = """#!/bin/bash
echo "$*" >>"$APT_CALLS"
[[ -z $APT_REFUSES || "$*" != *"$APT_REFUSES"* ]]
"""

# What pip says before it gives up, if no index answers.
NO_CONNECTION = """\
WARNING: Retrying (Retry(total=1, connect=None)) after connection broken by 'NewConnectionError'
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError'
ERROR: No matching distribution found for pandas
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
    prints, said, errors = tmp_path / "prints", tmp_path / "said", tmp_path / "errors"

    def run(*arguments, broken="nothing", pip_prints="", pip_errors="", terminal=None, before=()):
        calls.write_text("")
        prints.write_text(pip_prints)
        errors.write_text(pip_errors)
        paths = {"python": sys.executable, "calls": calls, "prints": prints, "errors": errors}
        python.write_text(PIP.format(broken=broken, **paths))
        python.chmod(0o755)
        with said.open("w") as output:
            done = subprocess.run(
                [*before, ROOT / "tools/setup.sh", *arguments],
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
        ending = f"(make setup PYTHON={sys.executable} tries again): ipykernel\n"
        assert again.endswith(ending)


def test_it_gives_up_when_no_index_answers(setup):
    for _ in range(2):  # nothing is marked as done
        status, said, calls = setup("partners", broken="install", pip_errors=NO_CONNECTION)
        assert status == 0, said
        assert len(calls) == 2, "all at once, then the first one"
        *_, last = said.splitlines()
        assert last.startswith("setup: no package index answers (asked for mypy==")
        assert "[partners] is not complete" in last
    status, said, calls = setup("partners", broken="ipykernel", pip_errors=NO_CONNECTION)
    assert calls[-1] == "ipykernel", "what comes before it is installed"
    status, said, calls = setup("partners", broken="ipykernel", pip_errors="ERROR: no wheel")
    assert len(calls) > calls.index("ipykernel") + 2, "the others are still tried"


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


@pytest.fixture
def debian(setup, tmp_path, monkeypatch):
    """Runs it on a Debian that lacks packages; returns its status, output and calls of apt-get."""
    commands, apt_calls = tmp_path / "bin", tmp_path / "apt-calls"
    commands.mkdir()
    for name, text in {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("APT_CALLS", str(apt_calls))

    def run(*groups, missing, before=(), refuses=""):
        apt_calls.write_text("")
        monkeypatch.setenv("MISSING", missing)
        monkeypatch.setenv("APT_REFUSES", refuses)
        status, said, _ = setup(*groups, before=before)
        installs = [line for line in apt_calls.read_text().splitlines() if "install" in line]
        return status, said, [line.rpartition("APT::Status-Fd=3 ")[2] for line in installs]

    return run


@pytest.fixture
def without_root():
    """A command that runs another one as a user who is not root."""
    if os.geteuid() != 0:
        return ()
    other_user = ("unshare", "--user")
    if subprocess.run([*other_user, "true"], capture_output=True).returncode != 0:
        pytest.skip("no other user without privileges of the machine")
    return other_user


@pytest.fixture
def as_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


def test_without_root_one_command_installs_the_packages_of_all_groups(debian, without_root):
    groups, missing = ("build", "demo", "test", "bench"), "cmake libgtest-dev valgrind ccache"
    status, said, installed = debian(*groups, missing=missing, before=without_root)
    assert (status, installed) == (1, [])
    assert said.count("sudo apt-get") == 2, "update and install, in one line"
    assert "--no-install-recommends cmake libgtest-dev valgrind\n" in said


def test_what_only_saves_time_stops_nothing(debian, without_root):
    status, said, installed = debian("test", missing="ccache", before=without_root)
    assert (status, installed) == (0, [])
    assert "ccache" not in said


def test_root_installs_the_packages(debian, as_root):
    status, said, installed = debian("build", "test", missing="cmake libgtest-dev ccache")
    assert status == 0, said
    assert installed == ["cmake", "libgtest-dev", "ccache"]


def test_root_goes_on_without_what_only_saves_time(debian, as_root):
    status, said, _ = debian("test", missing="ccache", refuses="ccache")
    assert status == 0, said
    assert "going on without: ccache" in said
    assert debian("test", missing="libgtest-dev", refuses="libgtest-dev")[0] == 0, "already done"


def test_root_does_not_go_on_without_what_is_needed(debian, as_root):
    assert debian("test", missing="libgtest-dev", refuses="libgtest-dev")[0] != 0


def test_lint_brings_the_same_mypy_as_the_tests():
    text = (ROOT / "tools/requirements.txt").read_text()
    groups = dict(re.findall(r"^\[(\w+)\]\n((?:(?!\[).*\n)*)", text, re.MULTILINE))
    pinned = [
        re.findall(r"^mypy==.*$", groups[name], re.MULTILINE) for name in ("lint", "partners")
    ]
    assert len(pinned[0]) == 1
    assert pinned[0] == pinned[1]


def make(*arguments):
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("target", ["test", "build", "wheel"])
def test_an_interpreter_that_is_not_there_is_named_once(target):
    done = make(target, "PYTHON=python3.99")
    assert done.returncode != 0
    first, *_ = done.stderr.splitlines()
    assert first.startswith("setup: python3.99 not found")


def test_make_compilers_fails_without_any_of_them():
    done = make("--assume-old=for-clang", "compilers", "COMPILERS=nocc++ noc++")
    assert done.returncode != 0
    assert "noc++ is not installed: left out" in done.stdout
    assert "none of these compilers is installed: nocc++ noc++" in done.stderr
