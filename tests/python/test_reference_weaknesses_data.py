"""Known weaknesses of the reference SDK: wrong or lost data.

See test_reference_weaknesses.py.
"""

import asyncio
import json
import shutil
import signal
import threading
from itertools import pairwise
from pathlib import Path

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from spool_files import Spool, strict_json


def test_documented_loop_with_scopes_closed_across_each_other(session, spool_dir):
    """As a hook does: `step` closes while a user's scope, or that of the loop, is above it."""
    step = None
    for _ in ci.epochs(range(3)):
        for _ in ci.batches(range(30)):
            user = ci.scope("user")
            user.__enter__()
            if step is not None:
                step.__exit__(None, None, None)
            step = ci.scope("step")
            step.__enter__()
            with ci.scope("forward"):
                pass
            user.__exit__(None, None, None)
    health = ci.health()
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("epoch")) == 3
    assert (
        len(spool.named("batch")) == len(spool.named("forward")) == len(spool.named("step")) == 90
    )
    assert max(len(spool.path(span)) for span in spool.spans) <= 6
    assert health["scope_drop_count"] == 0
    assert {tuple(spool.path(span)) for span in spool.named("batch")} == {
        ("cirron.session", "epoch", "batch")
    }


def test_exit_without_shutdown_writes_session_and_open_scopes(workdir):
    run_python(
        """
        import cirron as ci
        ci.profile()
        epochs = ci.epochs(range(3))
        next(epochs)
        step = ci.scope("step")
        step.__enter__()
        """
    )
    spool = Spool(workdir / ".cirron/spool")
    assert sorted(spool.names()) == ["cirron.session", "epoch", "step"]


def test_sigkill_loses_neither_closed_nor_open_spans(tmp_path):
    code = """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        for number in range(100):
            with ci.scope("closed", index=number):
                ci.mark("m", number)
        scope = ci.scope("open")
        scope.__enter__()
        print("ready", flush=True)
        sys.stdin.readline()
    """
    with RunningPython(code, tmp_path) as child:
        child.wait_for()
        child.signal(signal.SIGKILL)
        child.finish()
    ci.profile(path=tmp_path)
    ci.shutdown()
    spool = Spool(tmp_path / "spool")
    assert len(spool.named("closed")) == len(spool.marks) == 100
    assert spool.one("open")["attrs"]["sonde.closed_by"]
    assert len(spool.named("cirron.session")) == 2


def test_short_lived_threads_lose_nothing(session, spool_dir):
    def work(number):
        with ci.scope("short", index=number):
            ci.mark("m", number)

    for number in range(200):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    ci.flush()
    spool = Spool(spool_dir)
    assert sorted(span["index"] for span in spool.named("short")) == list(range(200))
    assert len(spool.marks) == 200


@pytest.mark.filterwarnings("ignore:.*MAX_DEPTH")
def test_drop_counters_of_ended_threads_stay(session):
    def overflow():
        scopes = [ci.scope("x") for _ in range(70)]
        for scope in scopes:
            scope.__enter__()

    for _ in range(3):
        thread = threading.Thread(target=overflow)
        thread.start()
        thread.join()
    assert ci.health()["scope_drop_count"] == 18


def test_unserialisable_attribute_loses_no_batch(session, spool_dir):
    with ci.scope("bad", what=object(), sets={1}):
        ci.mark("m", 1, what=threading.Lock())
    with ci.scope("good"):
        pass
    ci.flush()
    spool = Spool(spool_dir)
    assert spool.one("bad")["attrs"]["sets"] == "{1}"
    assert spool.one("bad")["attrs"]["what"].startswith("<object object")
    assert spool.one("good")
    assert "lock" in spool.mark("m")["attrs"]["what"]


def test_removed_directory_loses_nothing_after(session, spool_dir):
    ci.flush()
    shutil.rmtree(spool_dir.parent)
    with ci.scope("x"):
        pass
    ci.flush()
    assert Spool(spool_dir).one("x")


def test_chdir_does_not_move_the_spool(session, spool_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ci.scope("x"):
        pass
    ci.shutdown()
    assert Spool(spool_dir).one("x")
    assert not (tmp_path / ".cirron").exists()


def test_diverged_loss_is_strict_json(session, spool_dir):
    with ci.scope("x", nan=float("nan")):
        for value in (float("nan"), float("inf"), float("-inf")):
            ci.mark("loss", value)
    ci.flush()
    (file,) = spool_dir.glob("*.json")
    batch = strict_json(file.read_text())
    assert [mark["value"] for mark in batch["marks"]] == [None] * 3
    assert [mark["value_nonfinite"] for mark in batch["marks"]] == ["nan", "inf", "-inf"]
    assert {mark["value_type"] for mark in batch["marks"]} == {"float"}
    strict_json(ci.trace(format="json"))


def test_run_shorter_than_one_interval_reaches_the_event_stream():
    done = run_python(
        """
        import cirron as ci
        ci.profile(flush_interval=3600, output="none")
        with ci.scope("x"):
            pass
        """,
        env={"CIRRON_RUN_ID": "r"},
    )
    spans = [
        span["name"]
        for line in done.stdout.splitlines()
        for span in json.loads(line)["payload"]["spans"]
    ]
    assert sorted(spans) == ["cirron.session", "x"]


def test_caught_interrupt_leaves_the_profiler_alive(tmp_path):
    done = run_python(
        """
        import os, signal, sys, time
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=0.02)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            pass
        with ci.scope("after"):
            pass
        for _ in range(200):
            time.sleep(0.02)
            if any("after" in open(os.path.join(sys.argv[1], "spool", name)).read()
                   for name in os.listdir(sys.argv[1] + "/spool") if name.endswith(".json")):
                break
        else:
            sys.exit("the background thread is dead")
        print(ci.health()["flush_mode"])
        """,
        tmp_path / "out",
    )
    assert done.stdout == "normal\n"
    assert not (Path.cwd() / ".cirron").exists()


@pytest.mark.parametrize("output", ["none", "spool"])
def test_spans_after_shutdown_are_written_nowhere(workdir, tmp_path, output):
    run_python(
        """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1], output=sys.argv[2])
        ci.shutdown()
        with ci.scope("late"):
            ci.mark("m", 1)
        ci.flush()
        """,
        tmp_path / "out",
        output,
    )
    assert list(workdir.iterdir()) == []
    if output == "none":
        assert not (tmp_path / "out").exists()
    else:
        assert Spool(tmp_path / "out/spool").names() == ["cirron.session"]


def test_durations_are_monotonic(session, spool_dir):
    """A clock that is set is tested in test_disk.py."""
    with ci.scope("outer"):
        for _ in range(1000):
            with ci.scope("x"):
                pass
    ci.flush()
    spool = Spool(spool_dir)
    outer = spool.one("outer")
    spans = spool.named("x")
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(spans))
    assert outer["start_ns"] <= spans[0]["start_ns"]
    assert spans[-1]["end_ns"] <= outer["end_ns"]


def test_asyncio_tasks_have_a_stack_each(session, spool_dir):
    async def task(number):
        with ci.scope("task", index=number):
            await asyncio.sleep(0.001 * (3 - number))
            ci.mark("n", number)

    async def main():
        await asyncio.gather(*(task(number) for number in range(3)))

    asyncio.run(main())
    ci.shutdown()
    spool = Spool(spool_dir)
    for span in spool.named("task"):
        assert spool.path(span) == ["cirron.session", "task"]
        assert [mark["value"] for mark in spool.marks_of(span)] == [span["index"]]


def test_spans_of_threads_belong_to_the_session(session, spool_dir):
    thread = threading.Thread(target=lambda: [None for _ in ci.epochs(range(1))])
    thread.start()
    thread.join()
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("epoch")) == ["cirron.session", "epoch"]
