"""The example runs, and the stalls of its dataset are visible."""

import subprocess
import sys
from pathlib import Path

from spool_files import Spool

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart.py"


def test_quickstart(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--path", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "6 of 54 data_load spans took over 100 ms" in done.stdout
    spool = Spool(tmp_path / "out/spool")
    counts = {"epoch": 3, "step": 48, "forward": 54, "backward": 48, "validation": 3}
    assert {name: len(spool.named(name)) for name in counts} == counts
    assert len(spool.named("cirron.session")) == 1
