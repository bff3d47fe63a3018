"""The hint at the end of a run whose loop no hook knows."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from child_process import run_python
from sonde_command import sonde

if find_spec("jax") is None:
    pytest.skip("jax is not installed", allow_module_level=True)

# Long enough for a hint, in one place.
BUSY = """
import time
import jax, jax.numpy as jnp

@jax.jit
def step(w):
    return w * 0.5

def work(seconds, w=jnp.ones(8)):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        w = step(w)
        time.sleep(0.01)  # HERE
"""


def run_program(directory, text):
    program = Path(directory) / "program.py"
    program.write_text(text)
    done = run_python(
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')",
        program,
        env={"HOME": str(directory), "JAX_PLATFORMS": "cpu"},
        cwd=directory,
    )
    line = next(i for i, code in enumerate(text.splitlines(), 1) if "# HERE" in code)
    return done.stderr, f"{program}:{line}"


def test_loop_that_no_hook_knows(tmp_path):
    said, place = run_program(
        tmp_path, f"import cirron as ci; ci.profile(output='spool')\n{BUSY}\nwork(3)\n"
    )
    assert said.count("no epoch or step is on record: JAX ran") == 1
    assert place in said
    assert "ci.epochs" in said
    assert "ci.batches" in said
    for options in ([], ["--summary"]):
        shown = sonde("trace", *options, str(tmp_path / ".cirron")).stdout
        assert shown.count("hint: no epoch or step is on record") == 1
        assert place in shown


@pytest.mark.parametrize(
    "text",
    [
        "work(0.2)",
        "for _ in ci.epochs(range(2)): work(1.2)",
        "with ci.scope('batch'): work(2.4)",
    ],
    ids=["short", "epochs", "scope"],
)
def test_no_hint_where_none_is_due(tmp_path, text):
    said, _ = run_program(
        tmp_path, f"import cirron as ci; ci.profile(output='spool')\n{BUSY}\n{text}\n"
    )
    assert "on record" not in said
    assert "hint" not in sonde("trace", str(tmp_path / ".cirron")).stdout


def test_framework_that_was_imported_and_not_used(tmp_path):
    text = (
        "import cirron as ci; ci.profile(output='spool')\n"
        "import jax, time\n"
        "time.sleep(2.5)  # HERE\n"
    )
    said, _ = run_program(tmp_path, text)
    assert "on record" not in said


def test_program_that_dies_after_its_imports(tmp_path):
    library = tmp_path / "site-packages/slow_library.py"
    library.parent.mkdir()
    library.write_text("import time; time.sleep(3)\n")
    text = (
        "import sys; sys.path.insert(0, 'site-packages')\n"
        "import cirron as ci; ci.profile(output='spool')\n"
        "import jax.numpy as jnp; jnp.ones(3).block_until_ready()\n"
        "import slow_library\n"
        "sys.exit('wrong')\n"
    )
    program = tmp_path / "program.py"
    program.write_text(text)
    done = run_python(
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')",
        program,
        env={"HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "wrong" in done.stderr
    assert "on record" not in done.stderr


def test_hint_goes_when_a_loop_comes_after_all(tmp_path):
    """trace() in the middle of a session shows a hint; the end of the session does not."""
    text = (
        f"import cirron as ci; ci.profile(output='spool')\n{BUSY}\nwork(2.4)\n"
        "assert 'sonde.hint' in ci.trace(format='dict')['roots'][0]['attrs']\n"
        "for _ in ci.epochs(range(1)): work(0.1)\n"
    )
    said, _ = run_program(tmp_path, text)
    assert "on record" not in said
    assert "hint" not in sonde("trace", str(tmp_path / ".cirron")).stdout


def test_hint_in_a_second_session(tmp_path):
    """What was open at the end of the first session does not count in the second."""
    text = (
        "import cirron as ci; ci.profile(output='none')\n"
        "scope = ci.scope('epoch'); scope.__enter__(); ci.shutdown()\n"
        f"ci.profile(output='spool')\n{BUSY}\nwork(2.4)\n"
        "assert 'sonde.hint' in ci.trace(format='dict')['roots'][0]['attrs']\n"
    )
    run_program(tmp_path, text)
