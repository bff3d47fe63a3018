"""`sonde autopsy`, on dead processes, running ones and ended ones."""

import json
import signal
import subprocess
import time

from child_process import RunningPython, run_python
from cli_runs import CHILD, WITHOUT_SPOOL, killed_run
from sonde_command import sonde
from spool_files import Spool


def test_autopsy_where_nothing_happened(tmp_path):
    assert "nothing to report in" in sonde("autopsy", tmp_path).stdout
    sonde("autopsy", tmp_path / "nothing", status=1)
    file = tmp_path / "x.json"
    file.write_text("{}")
    assert "name the output directory" in sonde("autopsy", file, status=1).stderr


def test_autopsy_after_a_proper_end(tmp_path):
    run_python("import sys, cirron as ci; ci.profile(path=sys.argv[1], frameworks=[])", tmp_path)
    assert "nothing to report in" in sonde("autopsy", tmp_path).stdout


def test_autopsy_of_a_killed_process(tmp_path):
    pid = killed_run(tmp_path)
    before = sonde("autopsy", tmp_path, "--keep").stdout
    assert f"pid {pid}, rank 0" in before and ": DEAD\n" in before
    assert "the exact time is not known" in before
    assert "nothing was moved" in before

    text = sonde("autopsy", tmp_path).stdout
    opened = [line.split(" - open for")[0] for line in text.splitlines() if "open for" in line]
    assert sorted(line.strip() for line in opened) == [
        "cirron.session", "epoch[1]", "forward", "loader",
    ]  # fmt: skip
    assert "      epoch[1]" in opened and "        forward" in opened
    assert f"(tid {pid})" in text
    assert '{"layer":"conv"}' in text
    assert "batch[2] - " in text
    assert "depth=7 on forward" in text
    assert "moved into the spool: " in text
    assert "4 scopes that had been open, from 1 journal" in text

    spool = Spool(tmp_path / "spool")
    assert sorted(spool.names()) == sorted(
        ["warmup", "loader", "epoch", "epoch", "forward", "cirron.session"] + 6 * ["batch"]
    )
    assert spool.path(spool.one("forward")) == ["cirron.session", "epoch", "forward"]
    assert spool.one("forward")["attrs"]["sonde.closed_by"] == "death"
    assert not list((tmp_path / "live").glob("*.journal"))

    again = sonde("autopsy", tmp_path).stdout
    assert "recovered earlier" in again and "forward - open for" in again
    assert "moved" not in again
    assert len(Spool(tmp_path / "spool").spans) == len(spool.spans)


def test_autopsy_of_a_run_that_ended_but_could_not_write(tmp_path):
    run_python(WITHOUT_SPOOL, tmp_path, stdin=subprocess.DEVNULL)
    (tmp_path / "spool").unlink()
    before = sonde("autopsy", tmp_path, "--keep").stdout
    assert ": ended, 3 records were left in the journal\n" in before
    assert "nothing was moved" in before
    text = sonde("autopsy", tmp_path).stdout
    assert ": ended, 3 records were left in the journal and are now recovered\n" in text
    assert "DEAD" not in text and "died" not in text
    spool = Spool(tmp_path / "spool")
    assert sorted(spool.names()) == ["cirron.session", "work"]
    assert "nothing to report in" in sonde("autopsy", tmp_path).stdout


def test_autopsy_as_json(tmp_path):
    pid = killed_run(tmp_path)
    report = json.loads(sonde("autopsy", tmp_path, "--json").stdout)
    (process,) = report["processes"]
    assert (process["pid"], process["fate"]) == (pid, "dead")
    assert {scope["name"] for scope in process["open"]} == {
        "cirron.session", "epoch", "forward", "loader",
    }  # fmt: skip
    assert process["last_sign_ns"] >= process["started_ns"]
    assert report["moved"]["journals"] == 1
    (moved,) = report["moved"]["files"]
    assert moved in {file.name for file in Spool(tmp_path / "spool").files}


def test_autopsy_finds_the_last_spans_in_the_spool(tmp_path):
    with RunningPython(CHILD, tmp_path, 0.05) as run:
        run.wait_for()
        deadline = time.monotonic() + 20
        while len(list((tmp_path / "spool").glob("*.json"))) == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.3)
        run.signal(signal.SIGKILL)
        run.process.wait()
    text = sonde("autopsy", tmp_path, "--keep").stdout
    assert "last closed spans" in text
    assert "batch[2] - " in text


def test_autopsy_leaves_a_running_process_alone(tmp_path):
    with RunningPython(CHILD, tmp_path, 3600) as run:
        run.wait_for()
        text = sonde("autopsy", tmp_path).stdout
        assert ": running\n" in text
        assert "open now:" in text and "forward - open for" in text
        assert "moved" not in text and "died" not in text
        assert list((tmp_path / "live").glob("*.journal"))
        status, _, errors = run.finish()
        assert (status, errors) == (0, "")
    assert len(Spool(tmp_path / "spool").named("batch")) == 6


def test_autopsy_of_a_journal_of_another_kind(tmp_path):
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "1.journal").write_bytes(b"something else" * 100_000)
    done = sonde("autopsy", tmp_path, status=1)
    assert "is not a journal" in done.stderr
    assert (tmp_path / "live" / "1.journal").exists()
