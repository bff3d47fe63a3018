"""The example runs, and its planted stall can be seen."""

import subprocess
import sys
import time
from pathlib import Path

from spool_files import Spool

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart.py"


def test_quickstart(tmp_path):
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--path", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert time.monotonic() - start < 10
    assert "8 of 64 data_load spans took over 100 ms" in done.stdout
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("epoch")) == 4
    assert len(spool.named("batch")) == 64
    assert len(spool.named("cirron.session")) == 1
