"""ci.scope: nesting, closing by identity, exceptions, depth, the live span object."""

import gc
import os
import re
import threading
import time

import cirron as ci
import pytest
from spool_files import Spool

HEX_ID = re.compile(r"[0-9a-f]{32}")


def flushed(spool_dir):
    ci.flush()
    return Spool(spool_dir)


def children(name):
    """Names of the direct children of the only span of that name, open or closed."""
    (node,) = ci.trace(format="dict", name=name)["roots"]
    return [child["name"] for child in node["children"]]


def test_scopes_nest(session, spool_dir):
    with ci.scope("outer"):
        with ci.scope("a"), ci.scope("deep"):
            pass
        with ci.scope("b"):
            pass
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    paths = sorted("/".join(spool.path(span)[1:]) for span in spool.spans)
    assert paths == ["", "after", "outer", "outer/a", "outer/a/deep", "outer/b"]
    assert all(spool.path(span)[0] == "cirron.session" for span in spool.spans)


def test_children_are_written_before_their_parents(session, spool_dir):
    with ci.scope("outer"), ci.scope("inner"):
        pass
    assert flushed(spool_dir).names() == ["inner", "outer"]


def test_span_fields(session, spool_dir):
    before = time.time_ns()
    with ci.scope("x", index=7, variant="beam"):
        time.sleep(0.01)
    after = time.time_ns()
    span = flushed(spool_dir).one("x")
    assert before - 1_000_000 <= span["start_ns"] <= span["end_ns"] <= after + 1_000_000
    assert 10_000_000 <= span["end_ns"] - span["start_ns"] < 2_000_000_000
    assert span["index"] == 7
    assert span["attrs"] == {"variant": "beam"}
    assert span["thread_id"] == threading.get_ident()
    assert span["pid"] == os.getpid()
    assert span["rank"] == 0
    assert span["mark_ids"] == []
    assert (span["cpu_ns"], span["gpu_ns"], span["memory_peak_bytes"]) == (None, None, None)


def test_live_object(session, spool_dir):
    with ci.scope("outer") as outer, ci.scope("x", 2, a=1) as span:
        assert HEX_ID.fullmatch(span.id)
        assert (span.name, span.index, span.attrs) == ("x", 2, {"a": 1})
        assert span.parent_id == outer.id
        assert span.end_ns is None
        assert abs(span.start_ns - time.time_ns()) < 2_000_000_000
        assert (span.cpu_ns, span.gpu_ns, span.memory_peak_bytes) == (None, None, None)
        assert (span.thread_id, span.pid, span.rank) == (threading.get_ident(), os.getpid(), 0)
        ci.mark("m", 1)
        (mark_id,) = span.marks
    assert span.end_ns >= span.start_ns
    spool = flushed(spool_dir)
    written = spool.one("x")
    assert (written["id"], written["parent_id"]) == (span.id, span.parent_id)
    assert (written["start_ns"], written["end_ns"]) == (span.start_ns, span.end_ns)
    assert written["mark_ids"] == [mark_id] == [spool.mark("m")["id"]]


def test_top_scope_is_a_child_of_the_session(session, spool_dir):
    with ci.scope("x") as span:
        pass
    ci.shutdown()
    assert span.parent_id == Spool(spool_dir).one("cirron.session")["id"]


def test_attributes_may_change_while_the_scope_is_open(session, spool_dir):
    with ci.scope("x", a=1, b=2) as span:
        span.attrs["a"] = 10
        span.attrs["late"] = [1, 2]
        del span.attrs["b"]
    assert flushed(spool_dir).one("x")["attrs"] == {"a": 10, "late": [1, 2]}


def test_scope_opens_at_enter_not_at_construction(session, spool_dir):
    never = ci.scope("never")
    with ci.scope("x"):
        pass
    del never
    spool = flushed(spool_dir)
    assert spool.names() == ["x"]


def test_scope_may_be_reused(session, spool_dir):
    scope = ci.scope("again", n=1)
    ids = []
    for _ in range(3):
        with scope as span:
            ids.append(span.id)
    assert len(set(ids)) == 3
    spans = flushed(spool_dir).named("again")
    assert sorted(span["id"] for span in spans) == sorted(ids)
    assert [span["attrs"] for span in spans] == [{"n": 1}] * 3


def test_scope_may_be_entered_inside_itself(session, spool_dir):
    scope = ci.scope("self")
    with scope, ci.scope("between"), scope:
        pass
    spool = flushed(spool_dir)
    inner, outer = spool.named("self")
    assert spool.path(inner) == ["self", "between", "self"]
    assert inner["start_ns"] >= outer["start_ns"]
    assert inner["end_ns"] <= outer["end_ns"]


def test_one_scope_object_in_many_threads(session, spool_dir):
    scope = ci.scope("shared")
    barrier = threading.Barrier(8)

    def work():
        for _ in range(50):
            barrier.wait()
            with scope:
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(flushed(spool_dir).named("shared")) == 400
    assert ci.health()["scope_drop_count"] == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit, StopIteration])
def test_exception_closes_the_scope_and_goes_on(session, spool_dir, error):
    with pytest.raises(error), ci.scope("outer"), ci.scope("inner"):
        raise error
    with ci.scope("next"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("inner")) == ["cirron.session", "outer", "inner"]
    assert spool.path(spool.one("next")) == ["cirron.session", "next"]


def test_exit_returns_something_false(memory):
    scope = ci.scope("x")
    scope.__enter__()
    assert not scope.__exit__(ValueError, ValueError("x"), None)


# -- closing out of order --------------------------------------------------------------------------


def test_closing_an_outer_scope_closes_what_is_above_it(session, spool_dir):
    outer, inner = ci.scope("outer"), ci.scope("inner")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    with ci.scope("next"):
        pass
    inner.__exit__(None, None, None)
    with ci.scope("last"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("inner")) == ["cirron.session", "outer", "inner"]
    assert spool.one("inner")["end_ns"] <= spool.one("outer")["end_ns"]
    assert spool.one("inner")["attrs"]["sonde.closed_by"]
    assert "sonde.closed_by" not in spool.one("outer")["attrs"]
    for name in ("next", "last"):
        assert spool.path(spool.one(name)) == ["cirron.session", name]


def test_closing_twice_is_ignored(session, spool_dir):
    scope = ci.scope("x")
    with ci.scope("outer"):
        scope.__enter__()
        scope.__exit__(None, None, None)
        scope.__exit__(None, None, None)
        with ci.scope("inner"):
            pass
    spool = flushed(spool_dir)
    assert spool.path(spool.one("inner")) == ["outer", "inner"]
    assert len(spool.spans) == 3


def test_closing_what_was_never_opened_is_ignored(session, spool_dir):
    with ci.scope("outer"):
        ci.scope("x").__exit__(None, None, None)
        with ci.scope("inner"):
            pass
    spool = flushed(spool_dir)
    assert spool.path(spool.one("inner")) == ["outer", "inner"]


def test_scope_closed_by_another_thread(session, spool_dir):
    scope = ci.scope("handed over")
    with ci.scope("outer"):
        scope.__enter__()
        thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        with ci.scope("after"):
            pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("handed over")) == ["cirron.session", "outer", "handed over"]
    assert spool.path(spool.one("after")) == ["cirron.session", "outer", "after"]


def test_abandoned_generator_closes_its_own_scope_only(session, spool_dir):
    def items():
        with ci.scope("generator"):
            yield 1
            yield 2

    generator = items()
    next(generator)
    with ci.scope("user"):
        del generator
        gc.collect()
        with ci.scope("inner"):
            pass
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.one("generator")
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]
    # `user` was opened above the generator's scope and closed with it; the next ones are right.
    assert spool.one("inner")["end_ns"] <= spool.one("after")["start_ns"]


def test_interleaved_generators(session, spool_dir):
    def numbers(name):
        for number in range(3):
            with ci.scope(name, index=number):
                yield number

    for _ in zip(numbers("left"), numbers("right"), strict=True):
        pass
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert [span["index"] for span in spool.named("left")] == [0, 1, 2]
    assert sorted(span["index"] for span in spool.named("right")) == [0, 1, 2]
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


def test_scope_dropped_while_open_is_closed_with_the_session(session, spool_dir):
    ci.scope("lost").__enter__()
    gc.collect()
    with ci.scope("x"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.one("lost")["attrs"]["sonde.closed_by"]
    assert spool.one("x")


# -- depth -----------------------------------------------------------------------------------------


def nest(depth):
    """Opens that many scopes; returns how many were dropped."""
    scopes = [ci.scope("level", index=number) for number in range(depth)]
    dropped = [scope.__enter__() for scope in scopes].count(None)
    ci.mark("innermost", 1)
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)
    return dropped


@pytest.mark.filterwarnings("ignore:.*MAX_DEPTH")
def test_the_65th_scope_of_a_thread_is_dropped_and_counted(session, spool_dir):
    dropped = []
    thread = threading.Thread(target=lambda: dropped.append(nest(70)))
    thread.start()
    thread.join()
    assert dropped == [6]
    assert ci.health()["scope_drop_count"] == 6
    spool = flushed(spool_dir)
    levels = spool.named("level")
    assert sorted(span["index"] for span in levels) == list(range(64))
    (innermost,) = [span for span in levels if span["index"] == 63]
    assert spool.mark("innermost")["span_id"] == innermost["id"]


@pytest.mark.filterwarnings("ignore:.*MAX_DEPTH")
def test_depth_recovers_after_an_overflow(session, spool_dir):
    nest(100)
    with ci.scope("after") as span:
        assert span is not None
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


def test_overflow_is_reported_once_per_thread(session, recwarn, caplog):
    def overflow():
        nest(80)
        nest(80)

    thread = threading.Thread(target=overflow)
    thread.start()
    thread.join()
    texts = [str(warning.message) for warning in recwarn] + [r.message for r in caplog.records]
    assert len([text for text in texts if "MAX_DEPTH" in text]) == 1
