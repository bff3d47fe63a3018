"""ci.trace() and span.marks without a session: they show what is there and remove nothing."""

import cirron as ci
import pytest
from spool_files import Spool


def record():
    with ci.scope("early", index=3, color="red") as span:
        ci.mark("loss", 0.5, phase="warm-up")
        with ci.scope("inner"):
            pass
    return span


def names(tree):
    return [node["name"] for node in tree["roots"]]


@pytest.mark.parametrize("look", [0, 1, 3])
def test_trace_before_profile_takes_nothing_from_the_first_write(spool_dir, look):
    span = record()
    for _ in range(look):
        (node,) = ci.trace(format="dict", name="early")["roots"]
        assert node["marks"] == [{"name": "loss", "value": 0.5, "kind": "point"}]
        assert len(node["children"]) == 1
    ci.profile(flush_interval=3600)
    ci.flush()
    spool = Spool(spool_dir)
    assert sorted(spool.names()) == ["early", "inner"]
    written = spool.one("early")
    assert (written["id"], written["index"], written["attrs"]) == (span.id, 3, {"color": "red"})
    (mark,) = spool.marks
    assert mark["attrs"] == {"phase": "warm-up"}
    assert written["mark_ids"] == [mark["id"]] == span.marks
    assert ci.trace(format="dict", name="early")["span_count"] == 2


@pytest.mark.parametrize("format", ["dict", "json", "df", "arrow", "tree"])
def test_every_format_takes_nothing(spool_dir, format, capsys):
    record()
    ci.trace(format=format)
    ci.trace(format=format, summary=True)
    ci.profile(flush_interval=3600)
    ci.flush()
    assert sorted(Spool(spool_dir).names()) == ["early", "inner"]


def test_marks_of_a_span_take_nothing(spool_dir):
    span = record()
    ids = span.marks
    ci.profile(flush_interval=3600)
    ci.flush()
    spool = Spool(spool_dir)
    assert [mark["id"] for mark in spool.marks] == ids
    assert spool.one("early")["mark_ids"] == ids


def test_mark_of_a_scope_that_is_open_meanwhile(spool_dir):
    with ci.scope("open") as span:
        ci.mark("a", 1)
        assert len(span.marks) == 1
        (node,) = ci.trace(format="dict", name="open")["roots"]
        assert (node["end_ns"], len(node["marks"])) == (None, 1)
        ci.profile(flush_interval=3600)
        ci.mark("b", 2)
        assert len(span.marks) == 2
    ci.flush()
    spool = Spool(spool_dir)
    assert len(spool.one("open")["mark_ids"]) == len(spool.marks) == 2


def test_between_two_sessions(session, spool_dir):
    with ci.scope("first"):
        pass
    ci.shutdown()
    assert names(ci.trace(format="dict")) == ["cirron.session"]
    record()
    assert names(ci.trace(format="dict")) == ["early"]
    record()
    assert names(ci.trace(format="dict")) == ["early", "early"]
    ci.profile(path="second", flush_interval=3600)
    ci.flush()
    assert len(Spool("second/spool").named("early")) == 2
    assert len(ci.trace(format="dict", name="early")["roots"]) == 2
    assert sorted(Spool(spool_dir).names()) == ["cirron.session", "first"]


def test_where_much_is_recorded_it_makes_room(spool_dir):
    count = 400_000  # 24 MiB of records, where 16 MiB may be held
    for number in range(count):
        with ci.scope("many", index=number):
            pass
        if number % 20_000 == 0:
            ci.trace(format="arrow", last=1)
    kept = ci.trace(format="df", name="many")
    assert len(kept) == 100_000
    assert kept["index"].max() == count - 1
    assert ci.health()["span_drop_count"] == 0
    ci.profile(flush_interval=3600)
    ci.flush()
    written = [span["index"] for span in Spool(spool_dir).named("many")]
    assert written == list(range(count - len(written), count))
    assert len(written) > 50_000
