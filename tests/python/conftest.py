"""Every test starts without a session, in an empty directory, without this machine's settings."""

import os
import signal
import sys
from pathlib import Path

import cirron as ci
import pytest

# What the tests of this folder share lies beside them.
sys.path.insert(0, str(Path(__file__).parent))

# A runner in the background may hand SIGINT down ignored; caught here, children get the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SETTINGS = ("CIRRON_", "RANK", "LOCAL_RANK", "WORLD_SIZE")


@pytest.fixture(autouse=True)
def fresh_process(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(SETTINGS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    workdir = tmp_path / "work"
    workdir.mkdir()
    monkeypatch.chdir(workdir)
    ci.shutdown()
    # What earlier tests recorded without a session goes with this one, not with the test's.
    ci.profile(output="none")
    ci.shutdown()
    monkeypatch.setattr("cirron.instance._default", None)
    yield
    ci.shutdown()


@pytest.fixture
def workdir(fresh_process, tmp_path):
    """The current directory of the test."""
    return tmp_path / "work"


@pytest.fixture
def spool_dir(workdir):
    """Where profile() writes when it is told nothing."""
    return workdir / ".cirron" / "spool"


@pytest.fixture
def session():
    """A session with the default output and no tick of its own during the test."""
    handle = ci.profile(flush_interval=3600)
    ci.flush()  # the drain thread looks once when it starts
    return handle


@pytest.fixture
def memory():
    """A session that keeps everything in memory."""
    handle = ci.profile(output="none", flush_interval=3600)
    ci.flush()
    return handle


@pytest.fixture
def hooked(fresh_process):
    """A session in memory with the PyTorch hook, and a torch that begins the same each time."""
    import torch

    torch.manual_seed(0)
    return ci.profile(output="none", frameworks=["torch"], flush_interval=3600)
