"""Threads: each has its stack, the session is the parent; thousands of short ones, none lost."""

import os
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cirron as ci
import pytest
from child_process import run_python
from no_threads import NO_THREADS
from spool_files import Spool


def run_in_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_each_thread_has_its_own_stack(session, spool_dir):
    barrier = threading.Barrier(8)

    def work(number):
        with ci.scope("outer", index=number):
            barrier.wait()
            with ci.scope("inner", index=number):
                barrier.wait()
                ci.mark("number", number)

    run_in_threads(8, work)
    ci.shutdown()
    spool = Spool(spool_dir)
    for number in range(8):
        (outer,) = [span for span in spool.named("outer") if span["index"] == number]
        (inner,) = [span for span in spool.named("inner") if span["index"] == number]
        assert inner["parent_id"] == outer["id"]
        assert inner["thread_id"] == outer["thread_id"]
        assert [mark["value"] for mark in spool.marks_of(inner)] == [number]
    assert len({span["thread_id"] for span in spool.named("outer")}) == 8


def test_top_span_of_a_thread_is_a_child_of_the_session(session, spool_dir):
    with ci.scope("main"):
        run_in_threads(1, lambda _: ci.scope("worker").__enter__())
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("worker")) == ["cirron.session", "worker"]


def test_thread_that_ends_with_an_open_scope(session, spool_dir):
    run_in_threads(1, lambda _: ci.scope("left open").__enter__())
    ci.flush()
    run_in_threads(1, lambda _: ci.scope("another").__enter__())
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.one("left open")["attrs"]["sonde.closed_by"]
    assert spool.path(spool.one("another")) == ["cirron.session", "another"]


def test_thousands_of_threads_one_after_the_other(session, spool_dir):
    def work(number):
        with ci.scope("short", index=number):
            ci.mark("n", number)

    for number in range(3000):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    ci.shutdown()
    spool = Spool(spool_dir)
    assert sorted(span["index"] for span in spool.named("short")) == list(range(3000))
    assert sorted(mark["value"] for mark in spool.marks) == list(range(3000))
    assert all(len(span["mark_ids"]) == 1 for span in spool.named("short"))


def test_many_threads_at_once(spool_dir):
    ci.profile(flush_interval=0.01)
    barrier = threading.Barrier(200)

    def work(number):
        barrier.wait()
        for step in range(50):
            with ci.scope("work", index=number), ci.scope("inner", index=step):
                ci.mark("n", step)

    run_in_threads(200, work)
    health = ci.health()
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("inner")) == len(spool.named("work")) == len(spool.marks) == 10_000
    assert health["mark_drop_count"] == health["scope_drop_count"] == 0
    by_id = spool.by_id
    for span in spool.named("inner"):
        assert by_id[span["parent_id"]]["name"] == "work"
        assert by_id[span["parent_id"]]["thread_id"] == span["thread_id"]


def test_thread_ids_are_those_of_python(session, spool_dir):
    idents = []

    def work(_):
        idents.append(threading.get_ident())
        with ci.scope("x"):
            pass

    run_in_threads(4, work)
    ci.flush()
    assert sorted(span["thread_id"] for span in Spool(spool_dir).named("x")) == sorted(idents)


def test_recording_while_sessions_come_and_go(tmp_path):
    stop = threading.Event()
    failures = []

    def work():
        try:
            while not stop.wait(0.0001):
                with ci.scope("outer", a=1), ci.scope("inner"):
                    ci.mark("n", 1)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        ci.profile(path=tmp_path / str(number), flush_interval=0.005)
        time.sleep(0.01)
        if number % 3 == 0:
            ci.flush()
        ci.shutdown()
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for number in range(20):
        spool = Spool(tmp_path / str(number) / "spool")
        assert len(spool.named("cirron.session")) == 1


def test_flush_and_shutdown_end_while_threads_record_flat_out(tmp_path):
    """What is recorded after the call is left to the next one, so that the call comes to an end."""
    done = run_python(
        """
        import sys, threading, time
        import cirron as ci
        stop = threading.Event()
        def work():
            while not stop.is_set():
                with ci.scope("outer"), ci.scope("inner"):
                    ci.mark("n", 1)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads: thread.start()
        longest = 0
        ci.Cirron(spool_max_bytes=20_000_000, output_dir=sys.argv[1]).profile()
        time.sleep(0.02)
        for call in (ci.flush, ci.shutdown):
            start = time.monotonic()
            call()
            longest = max(longest, time.monotonic() - start)
        stop.set()
        for thread in threads: thread.join()
        print(longest)
        """,
        tmp_path,
        flags=["-W", "ignore"],
    )
    assert float(done.stdout) < 30  # the time to drain as much as may be held


def test_flush_health_and_trace_from_many_threads(session, spool_dir):
    def work(number):
        for step in range(10):
            with ci.scope("x", index=number * 10 + step):
                pass
            ci.flush()
            ci.health()
            ci.trace(format="dict", last=5)

    run_in_threads(8, work)
    ci.shutdown()
    assert sorted(span["index"] for span in Spool(spool_dir).named("x")) == list(range(80))


def test_thread_pool(session, spool_dir):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: [None for _ in ci.batches([number])], range(100)))
    ci.shutdown()
    assert len(Spool(spool_dir).named("batch")) == 100


def test_memory_of_ended_threads_is_given_back(memory):
    def work(_):
        with ci.scope("x"):
            pass

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(300):
        run_in_threads(1, work)
    ci.flush()
    before = resident()
    for _ in range(2000):
        run_in_threads(1, work)
    ci.flush()
    assert resident() - before < 8_000_000


def test_daemon_threads_may_record_while_the_interpreter_ends(workdir):
    run_python(
        """
        import threading, time
        import cirron as ci
        ci.profile(flush_interval=0.01)
        def work():
            while True:
                with ci.scope("x", a=1):
                    ci.mark("m", 1)
                time.sleep(0.0001)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        """,
    )
    assert len(Spool(workdir / ".cirron/spool").named("cirron.session")) == 1


def test_switch_interval_does_not_matter(session):
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run_in_threads(8, lambda _: [None for _ in ci.epochs(range(200))])
    finally:
        sys.setswitchinterval(old)
    assert ci.trace(format="dict", name="epoch")["span_count"] == 1600


def test_a_process_without_another_thread_is_recorded(tmp_path):
    """The kernel refuses every new thread: flush() and the end of the program write."""
    done = run_python(
        NO_THREADS
        + textwrap.dedent("""
        import signal, cirron as ci

        ci.profile(path=sys.argv[1], output=["spool", "stdout"])
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        with ci.scope("first"):
            pass
        ci.flush()
        print("flushed")
        with ci.scope("second"):
            pass
        """),
        tmp_path,
    )
    if "cannot filter" in done.stdout:
        pytest.skip("cannot filter calls here")
    words = [word for word in done.stdout.split() if word in ("first", "flushed", "second")]
    assert words == ["first", "flushed", "second"], done.stdout
    assert done.stderr.count("cannot start a thread") == 1, done.stderr
    assert not list((tmp_path / "live").iterdir())
