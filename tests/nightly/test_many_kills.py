"""Hundreds of SIGKILLs at random instants, of runs and of recoveries."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kill_check import BUSY, check_killed_run, kill_after

SEEDS = range(300)
SONDE = Path(sys.executable).with_name("sonde")


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_a_random_instant(tmp_path, seed):
    steps = kill_after(random.Random(seed).uniform(0, 0.15), tmp_path, BUSY)
    check_killed_run(tmp_path, steps)


@pytest.mark.parametrize("seed", range(60))
def test_recovery_killed_at_a_random_instant(tmp_path, seed):
    """The records move exactly once, however often the move itself is cut short."""
    random_delay = random.Random(1000 + seed)
    steps = kill_after(0.1, tmp_path, BUSY)
    for _ in range(4):
        recoverer = subprocess.Popen(
            [SONDE, "autopsy", str(tmp_path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(random_delay.uniform(0, 0.012))
        recoverer.send_signal(signal.SIGKILL)
        recoverer.wait()
    check_killed_run(tmp_path, steps)
