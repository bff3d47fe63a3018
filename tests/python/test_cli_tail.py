"""`sonde tail`, on running processes."""

import shutil
import signal
import time

import pytest
from child_process import RunningPython
from cli_runs import CHILD, WITHOUT_SPOOL, tail_of
from sonde_command import sonde


def test_tail_where_nothing_runs(tmp_path):
    assert "sonde trace" in sonde("tail", tmp_path, status=1).stderr
    assert "name the output directory" in sonde("tail", tmp_path / "x", status=1).stderr


def test_tail_ends_when_the_directory_is_gone(tmp_path):
    out = tmp_path / "out"
    with RunningPython(CHILD, out, 3600) as run:
        run.wait_for()
        with tail_of(out) as tail:
            assert "has been running for" in tail.stdout.readline()
            shutil.rmtree(out)
            output, errors = tail.communicate(timeout=30)
    assert tail.returncode == 1
    assert f"{out} is gone" in errors and "may still run" in errors
    assert "ended" not in output


def test_tail_once_shows_the_open_stacks(tmp_path):
    with RunningPython(CHILD, tmp_path, 3600) as run:
        run.wait_for()
        text = sonde("tail", tmp_path, "--once").stdout
        assert f"pid {run.pid}" in text
        assert "forward - open for" in text and "loader - open for" in text


def extra_scopes(run, count):
    for _ in range(count):
        run.process.stdin.write("go\n")
        run.process.stdin.flush()
        assert run.process.stdout.readline() == "done\n"
        time.sleep(0.05)


@pytest.mark.parametrize("interval", [3600, 0.02])
def test_tail_prints_every_span_once_until_the_end(tmp_path, interval):
    with RunningPython(CHILD, tmp_path, interval) as run:
        run.wait_for()
        with tail_of(tmp_path, "--level", "all") as tail:
            extra_scopes(run, 5)
            run.finish()
            output, errors = tail.communicate(timeout=30)
    assert (tail.returncode, errors) == (0, "")
    lines = output.splitlines()
    assert sum(line.startswith("[cirron] extra - ") for line in lines) == 5
    assert all("{more=1}" in line for line in lines if line.startswith("[cirron] extra"))
    forward = [line for line in lines if line.startswith("[cirron] forward - ")]
    assert len(forward) == 1 and "{depth=7}" in forward[0]
    assert sum(line.startswith("[cirron] batch[0] - ") for line in lines) == 2
    assert sum(line.startswith("[cirron] cirron.session - ") for line in lines) == 1
    assert lines[-1] == f"[cirron] pid {run.pid} (rank 0) ended"


def test_tail_of_a_run_that_ended_but_could_not_write(tmp_path):
    with RunningPython(WITHOUT_SPOOL, tmp_path) as run:
        run.wait_for()
        with tail_of(tmp_path) as tail:
            assert "has been running for" in tail.stdout.readline()
            assert tail.stdout.readline().startswith("[cirron] work - ")
            run.finish()
            output, _ = tail.communicate(timeout=30)
    assert output.splitlines()[-1] == f"[cirron] pid {run.pid} (rank 0) ended"


def test_tail_begins_with_a_few_of_the_spans_before(tmp_path):
    with RunningPython(CHILD, tmp_path, 0.02) as run:
        run.wait_for()
        extra_scopes(run, 3)
        time.sleep(0.3)
        with tail_of(tmp_path, "-n", "2", "--name", "extra") as tail:
            assert "has been running for" in tail.stdout.readline()
            assert [tail.stdout.readline()[:16] for _ in range(2)] == ["[cirron] extra -"] * 2
            run.finish()
            assert "extra" not in tail.communicate(timeout=30)[0]


def test_tail_names_ranks_where_there_are_several(tmp_path):
    with (
        RunningPython(CHILD, tmp_path, 0.02, env={"RANK": "0"}) as first,
        RunningPython(CHILD, tmp_path, 0.02, env={"RANK": "1"}) as second,
    ):
        first.wait_for()
        second.wait_for()
        with tail_of(tmp_path, "--name", "ex*") as tail:
            extra_scopes(first, 1)
            extra_scopes(second, 1)
            first.finish()
            second.finish()
            lines = tail.communicate(timeout=30)[0].splitlines()
    for rank, run in enumerate((first, second)):
        assert sum(line.startswith(f"[cirron] rank {rank} extra - ") for line in lines) == 1
        assert f"[cirron] pid {run.pid} (rank {rank}) ended" in lines


def test_tail_says_that_a_process_died_and_what_to_do(tmp_path):
    with RunningPython(CHILD, tmp_path, 3600) as run:
        run.wait_for()
        with tail_of(tmp_path) as tail:
            assert tail.stdout.readline().startswith("[cirron] ")
            run.signal(signal.SIGKILL)
            run.process.wait()
            output, _ = tail.communicate(timeout=30)
    assert output.splitlines()[-1].endswith(f"sonde autopsy {tmp_path}")
    assert tail.returncode == 0


def test_tail_ends_quietly_on_an_interrupt(tmp_path):
    with RunningPython(CHILD, tmp_path, 3600) as run:
        run.wait_for()
        with tail_of(tmp_path) as tail:
            assert tail.stdout.readline().startswith("[cirron] ")
            tail.send_signal(signal.SIGINT)
            _, errors = tail.communicate(timeout=30)
        assert (tail.returncode, errors) == (0, "")
