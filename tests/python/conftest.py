"""Every test starts without a session, in an empty directory, without this machine's settings."""

import logging
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import cirron as ci
import pytest

# The modules that these tests share are in this folder.
sys.path.insert(0, str(Path(__file__).parent))

# A runner in the background may pass SIGINT on as ignored. Handled here, children get the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SETTINGS = ("CIRRON_", "RANK", "LOCAL_RANK", "WORLD_SIZE")


@pytest.fixture(scope="session", autouse=True)
def hangup_as_usual_in_children():
    """Under nohup SIGHUP is ignored, and a new program inherits that.

    It does not inherit a handler: it gets the default. The handler is set where tests run, and not
    before the workers of xdist start, which are new programs too and have to survive a hangup.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
    """What frameworks and killed processes leave in the temporary folder is removed."""
    tmp_path_factory.getbasetemp()  # stays: what failed is kept there to be looked at
    with tempfile.TemporaryDirectory(prefix="sonde-tests-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        tempfile.tempdir = None
        del os.environ["TMPDIR"]


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
    # What earlier tests recorded without a session goes into this session, not into the test's.
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
    """Where profile() writes by default."""
    return workdir / ".cirron" / "spool"


@pytest.fixture
def session():
    """A session with the default output that does not flush by itself during the test."""
    handle = ci.profile(flush_interval=3600)
    ci.flush()  # the drain thread drains once when it starts
    return handle


@pytest.fixture
def memory():
    """A session that keeps everything in memory."""
    handle = ci.profile(output="none", flush_interval=3600)
    ci.flush()
    return handle


@pytest.fixture
def hooked(fresh_process):
    """A session in memory with the PyTorch hook; torch has a fixed seed."""
    import torch

    torch.manual_seed(0)
    return ci.profile(output="none", frameworks=["torch"], flush_interval=3600)


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def pl(request, fresh_process):
    """Lightning under both of its names, with a session. Its messages for users are silenced."""
    package = pytest.importorskip(request.param)
    import torch
    from lightning_runs import profile

    for name in ("lightning", "pytorch_lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.manual_seed(0)
    profile()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning|torch)\b")
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield package
    ci.shutdown()


@pytest.fixture
def program(tmp_path):
    """A program with several processes, to be written by the test."""
    from run_programs import Program

    return Program(tmp_path)
