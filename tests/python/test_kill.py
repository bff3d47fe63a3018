"""SIGKILL at any instant: the next profile() finds what was closed and what was open."""

import logging
import random
import signal

import cirron as ci
import pytest
from child_process import RunningPython
from kill_check import BUSY, CALM, check_killed_run, kill_after
from spool_files import Spool


@pytest.mark.parametrize("seed", range(8))
def test_killed_run_keeps_its_spans(tmp_path, seed):
    steps = kill_after(random.Random(seed).uniform(0, 0.25), tmp_path)
    assert check_killed_run(tmp_path, steps) == 1


def test_recovery_happens_exactly_once(tmp_path):
    kill_after(0.05, tmp_path)
    counts = []
    for _ in range(3):
        ci.profile(path=tmp_path, flush_interval=3600)
        ci.flush()
        counts.append(ci.health()["recovered_journals"])
        ci.shutdown()
    assert counts == [1, 0, 0]
    assert len(Spool(tmp_path / "spool").named("epoch")) == 1


def test_several_dead_processes(tmp_path):
    for _ in range(3):
        kill_after(0.02, tmp_path)
    # The second and third run recovered the one before them; one is left.
    ci.profile(path=tmp_path, flush_interval=3600)
    ci.flush()
    ci.shutdown()
    spool = Spool(tmp_path / "spool")
    assert len(spool.named("epoch")) == 3
    assert len(spool.named("cirron.session")) == 4


def test_recovery_by_many_processes_at_once(tmp_path):
    kill_after(0.05, tmp_path)
    code = """
        import sys
        import cirron as ci
        sys.stdin.readline()
        ci.profile(path=sys.argv[1])
    """
    children = [RunningPython(code, tmp_path) for _ in range(6)]
    try:
        for child in children:
            child.process.stdin.write("go\n")
            child.process.stdin.flush()
        for child in children:
            status, _, errors = child.finish(timeout=40)
            assert (status, errors) == (0, "")
    finally:
        for child in children:
            child.__exit__()
    spool = Spool(tmp_path / "spool")
    assert len(spool.named("epoch")) == 1
    assert len(spool.named("cirron.session")) == 7


def test_segfault(tmp_path):
    code = """
        import ctypes, sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("closed"):
            pass
        scope = ci.scope("open", detail="at the end")
        scope.__enter__()
        print("ready", flush=True)
        ctypes.string_at(0)
    """
    with RunningPython(code, tmp_path) as child:
        child.wait_for()
        status, _, _ = child.finish(timeout=20)
    assert status == -signal.SIGSEGV
    ci.profile(path=tmp_path)
    ci.shutdown()
    spool = Spool(tmp_path / "spool")
    assert spool.one("closed")
    assert spool.one("open")["attrs"]["detail"] == "at the end"


def damage_journal(journal, damage):
    data = bytearray(journal.read_bytes())
    if damage == "empty":
        data = bytearray()
    elif damage == "garbage":
        data = bytearray(random.Random(1).randbytes(100_000))
    elif damage == "truncated":
        data = data[: len(data) // 3]
    elif damage == "version":
        data[8] = 99
    journal.unlink()
    if damage == "directory":
        journal.mkdir()
    else:
        journal.write_bytes(data)


# Cut in the middle, it still has its header and first blocks. A calm program has filled no others,
# so all is recovered.
@pytest.mark.parametrize(
    ("damage", "readable"),
    [
        ("empty", False),
        ("garbage", False),
        ("truncated", True),
        ("version", False),
        ("directory", False),
    ],
)
def test_damaged_journals_do_not_stop_a_session(tmp_path, caplog, damage, readable):
    kill_after(0.02, tmp_path, CALM if readable else BUSY)
    (journal,) = [entry for entry in (tmp_path / "live").iterdir() if entry.is_file()]
    before = {span["id"] for span in Spool(tmp_path / "spool").spans}
    damage_journal(journal, damage)
    caplog.set_level(logging.WARNING, logger="cirron")
    for run in range(2):
        caplog.clear()
        ci.profile(path=tmp_path, flush_interval=3600)
        for number in range(100):
            with ci.scope(f"run{run}", index=number), ci.scope("inner", index=number):
                ci.mark("n", number)
        ci.flush()
        assert ci.health()["recovery_problems"] == (0 if readable else 1)
        ci.shutdown()
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == (0 if readable else 1), said
        assert all("left alone" in text and str(journal) in text for text in said)
    assert journal.exists() is not readable

    spool = Spool(tmp_path / "spool")
    assert before <= spool.by_id.keys()
    assert len(spool.named("step")) == 100 or not readable
    for run in range(2):
        spans = spool.named(f"run{run}")
        assert [span["index"] for span in spans] == list(range(100))
        assert all(spool.path(span) == ["cirron.session", f"run{run}"] for span in spans)
        ids = {span["id"] for span in spans}
        inner = [span for span in spool.named("inner") if span["parent_id"] in ids]
        assert [span["index"] for span in inner] == list(range(100))
        assert [spool.marks_of(span)[0]["value"] for span in inner] == list(range(100))
