"""Runs Python programs in other processes: for exits, signals, forks and the cost of imports."""

import os
import subprocess
import sys
import textwrap

TIMEOUT_S = 240


def run_python(code, *args, flags=(), env=None, check=True, timeout=TIMEOUT_S, **options):
    """Runs a program to its end. `check`: it has to end with status 0."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | (env or {}),
        **options,
    )
    if check:
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class RunningPython:
    """A program that prints a line `ready`, and can then be signalled."""

    def __init__(self, code, *args, env=None):
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", textwrap.dedent(code), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (env or {}),
        )
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    def wait_for(self, word="ready"):
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"never said {word!r}: {self.process.stderr.read()}")

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, text="", timeout=TIMEOUT_S):
        """Waits for its end; returns status, output and errors."""
        output, errors = self.process.communicate(text, timeout=timeout)
        return self.process.returncode, output, errors
