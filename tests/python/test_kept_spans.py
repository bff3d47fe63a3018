"""A span object that a program keeps knows which thread opened it and when it ended."""

import asyncio
import gc
import os
import threading
import time

import cirron as ci
import pytest
from spool_files import Spool


def in_thread(work):
    """What `work` returns on another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def left_open(name="left"):
    scope = ci.scope(name)
    return scope.__enter__()


def assert_as_written(span, spool_dir):
    ci.flush()
    written = Spool(spool_dir).one(span.name)
    fields = ("id", "parent_id", "start_ns", "end_ns", "thread_id", "pid", "rank")
    assert {f: getattr(span, f) for f in fields} == {f: written[f] for f in fields}


# -- thread_id --


def test_thread_is_the_one_that_opened_it_also_on_other_threads(session, spool_dir):
    with ci.scope("x") as span:
        assert in_thread(lambda: span.thread_id) == threading.get_ident()
    assert in_thread(lambda: span.thread_id) == threading.get_ident()
    assert_as_written(span, spool_dir)


def test_thread_is_the_one_that_opened_it_also_if_another_closes_it(session, spool_dir):
    ident, span = in_thread(lambda: (threading.get_ident(), left_open()))
    assert span.thread_id == ident != threading.get_ident()
    span.__exit__(None, None, None)
    assert span.thread_id == ident
    assert_as_written(span, spool_dir)


def test_thread_of_a_scope_entered_in_two_threads(session):
    scope = ci.scope("twice")
    with scope:
        inner = in_thread(lambda: (threading.get_ident(), scope.__enter__().thread_id))
        assert inner[0] == inner[1] == scope.thread_id
        scope.__exit__(None, None, None)
        assert scope.thread_id == threading.get_ident()


def test_thread_of_a_task(session, spool_dir):
    async def work():
        with ci.scope("task") as span:
            await asyncio.sleep(0)
        return span

    ident, span = in_thread(lambda: (threading.get_ident(), asyncio.run(work())))
    assert span.thread_id == ident
    assert_as_written(span, spool_dir)


def test_what_was_never_entered_has_no_thread_and_no_times(session):
    scope = ci.scope("never")
    fields = (scope.id, scope.parent_id, scope.start_ns, scope.end_ns, scope.thread_id)
    assert fields == (None,) * 5
    assert repr(scope) == "<scope 'never'>"


# -- end_ns --


def test_closed_by_its_parent(session, spool_dir):
    with ci.scope("outer") as outer:
        span = left_open()
        assert (span.end_ns, repr(span)) == (None, "<scope 'left', open>")
    assert span.end_ns == outer.end_ns
    assert repr(span) == "<scope 'left', closed>"
    assert_as_written(span, spool_dir)


def test_closing_it_once_more_changes_nothing(session, spool_dir):
    with ci.scope("outer"):
        span = left_open()
    end = span.end_ns
    span.__exit__(None, None, None)
    assert span.end_ns == end is not None
    assert_as_written(span, spool_dir)


def test_closed_by_its_parent_and_first_asked_after_its_own_exit(session, spool_dir):
    with ci.scope("outer"):
        span = left_open()
    span.__exit__(None, None, None)
    assert_as_written(span, spool_dir)


def test_others_that_take_its_place_do_not_matter(session, spool_dir):
    with ci.scope("outer"):
        span = left_open()
    for _ in range(100):
        with ci.scope("one"), ci.scope("two"):
            pass
    assert_as_written(span, spool_dir)


def test_closed_by_shutdown(session, spool_dir):
    span = left_open()
    other = in_thread(lambda: (left_open("elsewhere"), threading.Event()))[0]
    ci.shutdown()
    assert repr(span) == "<scope 'left', closed>"
    assert_as_written(span, spool_dir)
    assert_as_written(other, spool_dir)
    span.__exit__(None, None, None)
    assert_as_written(span, spool_dir)


def test_open_on_another_thread_when_the_session_ends(session, spool_dir):
    inside, leave = threading.Event(), threading.Event()
    spans = []

    def work():
        with ci.scope("working") as span:
            spans.append(span)
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(20)
    ci.shutdown()
    end = spans[0].end_ns
    leave.set()
    thread.join()
    assert spans[0].end_ns == end is not None
    assert_as_written(spans[0], spool_dir)


def test_closed_by_another_thread(session, spool_dir):
    span = left_open()
    above = left_open("above")
    in_thread(lambda: span.__exit__(None, None, None))
    assert span.end_ns == above.end_ns is not None
    assert_as_written(span, spool_dir)
    assert_as_written(above, spool_dir)


def test_closed_by_the_end_of_its_thread(session, spool_dir):
    span = in_thread(left_open)
    deadline = time.monotonic() + 30
    while span.end_ns is None and time.monotonic() < deadline:
        time.sleep(0.005)  # join() returns a moment before the thread is gone
    assert span.end_ns is not None
    assert_as_written(span, spool_dir)


def test_closed_with_its_task(session, spool_dir):
    async def work():
        return left_open()

    span = asyncio.run(work())
    gc.collect()
    assert_as_written(span, spool_dir)


def test_with_attributes_or_a_long_name(session, spool_dir):
    with ci.scope("outer"):
        attributed = ci.scope("attributed", a=1).__enter__()
        long = ci.scope("n" * 3000).__enter__()
    for span in (attributed, long):
        assert_as_written(span, spool_dir)
        span.__exit__(None, None, None)
        assert_as_written(span, spool_dir)


def test_entered_again_while_its_first_span_was_closed_by_a_parent(session):
    scope = ci.scope("again")
    with ci.scope("outer"):
        scope.__enter__()
    first = scope.end_ns
    scope.__enter__()
    assert scope.end_ns is None
    scope.__exit__(None, None, None)
    assert scope.end_ns == first is not None
    scope.__exit__(None, None, None)
    assert scope.end_ns == first


def test_session_after_its_own(session, spool_dir):
    span = left_open()
    ci.shutdown()
    seen = (span.id, span.start_ns, span.end_ns, span.thread_id)
    ci.profile(output="none")
    with ci.scope("later"):
        assert (span.id, span.start_ns, span.end_ns, span.thread_id) == seen
    assert_as_written(span, spool_dir)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_in_a_forked_child_it_is_still_the_parents(session, spool_dir):
    with ci.scope("before") as before, ci.scope("open") as span:
        fields = ("id", "parent_id", "start_ns", "end_ns", "thread_id", "pid", "rank")
        here = [[getattr(each, f) for f in fields] for each in (before, span)]
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                there = [[getattr(each, f) for f in fields] for each in (before, span)]
                with ci.scope("own") as own:
                    own_is_right = own.pid == os.getpid() != span.pid
                status = 0 if there == here and own_is_right else 2
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
    assert_as_written(span, spool_dir)
