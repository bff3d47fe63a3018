"""Runs the command `sonde`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def sonde_path():
    found = os.environ.get("SONDE_BIN") or shutil.which("sonde", path=Path(sys.executable).parent)
    if found is None:
        pytest.skip("no sonde beside the interpreter; build it or set SONDE_BIN")
    return found


def sonde(*args, status=0):
    done = subprocess.run(
        [sonde_path(), *map(str, args)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
