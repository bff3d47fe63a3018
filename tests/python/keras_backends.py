"""Starts keras_child.py on one backend and returns what its runs left."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from child_process import run_python


def run_on_backend(backend, programs, directory):
    """The results of the runs of these modules, by name; one process for all of them."""
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    done = run_python(
        f"import keras_child, {', '.join(programs)}; keras_child.main()",
        flags=["-W", "ignore"],
        env={
            "KERAS_BACKEND": backend,
            "KERAS_HOME": str(directory),
            "HOME": str(directory),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        },
        cwd=directory,
    )
    results = json.loads(done.stdout.splitlines()[-1])
    broken = [text for text in results.values() if isinstance(text, str) and "Traceback" in text]
    assert not broken, "\n".join(broken)
    results["backend"] = backend
    return results
