"""ci.epochs and ci.batches: transparent, one scope per item, closed however the loop is left."""

import gc
import time
import weakref
from itertools import pairwise

import cirron as ci
import pytest
from spool_files import Spool

BOTH = pytest.mark.parametrize(
    ("wrapper", "name"), [(ci.epochs, "epoch"), (ci.batches, "batch")], ids=["epochs", "batches"]
)


def flushed(spool_dir):
    ci.flush()
    return Spool(spool_dir)


def assert_one_and_closed(spool_dir, name):
    """One turn of the loop was recorded, and what comes after it is outside."""
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named(name)) == 1
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


@BOTH
def test_items_pass_through_unchanged(session, wrapper, name):
    items = [object() for _ in range(5)]
    assert [id(item) for item in wrapper(items)] == [id(item) for item in items]
    assert list(wrapper(number * 2 for number in range(4))) == [0, 2, 4, 6]
    assert list(wrapper({"a": 1, "b": 2})) == ["a", "b"]
    assert list(wrapper([])) == []


@BOTH
def test_one_indexed_scope_per_item(session, spool_dir, wrapper, name):
    for item in wrapper("abc"):
        with ci.scope(item):
            pass
    spool = flushed(spool_dir)
    spans = spool.named(name)
    assert [span["index"] for span in spans] == [0, 1, 2]
    for span, item in zip(spans, "abc", strict=True):
        assert spool.one(item)["parent_id"] == span["id"]
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(spans))


def test_the_documented_loop(session, spool_dir):
    for _ in ci.epochs(range(3)):
        for batch in ci.batches(range(4)):
            ci.mark("loss", batch * 0.5)
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("epoch")) == 3
    assert [span["index"] for span in spool.named("batch")] == [0, 1, 2, 3] * 3
    for span in spool.named("batch"):
        assert spool.path(span) == ["cirron.session", "epoch", "batch"]
        (mark,) = spool.marks_of(span)
        assert mark["value"] == span["index"] * 0.5


@BOTH
def test_scope_covers_the_body(session, spool_dir, wrapper, name):
    for _ in wrapper(range(2)):
        time.sleep(0.02)
    spans = flushed(spool_dir).named(name)
    assert all(span["end_ns"] - span["start_ns"] >= 20_000_000 for span in spans)


@BOTH
def test_break_closes_the_scope(session, spool_dir, wrapper, name):
    for _ in wrapper(range(10)):
        break
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert [span["index"] for span in spool.named(name)] == [0]
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


@BOTH
def test_exception_in_the_body_closes_the_scope(session, spool_dir, wrapper, name):
    def loop():
        for _ in wrapper(range(10)):
            raise ValueError

    with pytest.raises(ValueError):
        loop()
    assert_one_and_closed(spool_dir, name)


@BOTH
def test_exception_in_the_iterable_goes_through(session, spool_dir, wrapper, name):
    def items():
        yield 1
        raise ValueError("broken dataset")

    with pytest.raises(ValueError, match="broken dataset"):
        list(wrapper(items()))
    assert_one_and_closed(spool_dir, name)


@BOTH
def test_return_and_nested_break(session, spool_dir, wrapper, name):
    def search():
        for epoch in ci.epochs(range(3)):
            for batch in wrapper(range(3)):
                if epoch == 1 and batch == 1:
                    return

    search()
    gc.collect()
    with ci.scope("after"):
        pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


@BOTH
def test_closing_by_hand(session, spool_dir, wrapper, name):
    loop = wrapper(range(3))
    assert next(loop) == 0
    loop.close()
    loop.close()
    with ci.scope("after"):
        pass
    assert list(loop) == []
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named(name)) == 1
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


@BOTH
def test_close_reaches_a_generator_underneath(session, wrapper, name):
    finished = []

    def items():
        try:
            yield 1
            yield 2
        finally:
            finished.append(True)

    loop = wrapper(items())
    next(loop)
    del loop
    gc.collect()
    assert finished == [True]


@BOTH
def test_abandoned_iterator_closes_its_scope(session, spool_dir, wrapper, name):
    loop = wrapper(range(3))
    next(loop)
    del loop
    gc.collect()
    assert_one_and_closed(spool_dir, name)


@BOTH
def test_exhausted_iterator_stays_exhausted(session, wrapper, name):
    loop = wrapper(range(2))
    assert list(loop) == [0, 1]
    assert list(loop) == []
    assert next(loop, "default") == "default"


@BOTH
def test_iterator_is_its_own_iterator(memory, wrapper, name):
    loop = wrapper(range(2))
    assert iter(loop) is loop


@BOTH
def test_length_is_that_of_the_iterable(memory, wrapper, name):
    assert len(wrapper(range(7))) == 7
    assert len(wrapper([])) == 0
    with pytest.raises(TypeError):
        len(wrapper(iter([1])))


@BOTH
def test_what_cannot_be_iterated_is_refused(memory, wrapper, name):
    with pytest.raises(TypeError, match="iterable"):
        for _ in wrapper(3):
            pass
    with pytest.raises(TypeError):
        wrapper()


@BOTH
def test_error_of_iter_goes_through(memory, wrapper, name):
    class Broken:
        def __iter__(self):
            raise RuntimeError("no workers")

    with pytest.raises(RuntimeError, match="no workers"):
        for _ in wrapper(Broken()):
            pass


@BOTH
def test_works_without_a_session(wrapper, name):
    assert list(wrapper(range(3))) == [0, 1, 2]
    assert [node["index"] for node in ci.trace(format="dict", name=name)["roots"]] == [0, 1, 2]


@BOTH
@pytest.mark.filterwarnings("ignore:.*MAX_DEPTH")
def test_items_still_come_when_scopes_are_dropped_for_depth(session, wrapper, name):
    scopes = [ci.scope("level") for _ in range(64)]
    for scope in scopes:
        scope.__enter__()
    assert list(wrapper(range(3))) == [0, 1, 2]
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)


@BOTH
def test_items_are_not_kept_alive(memory, wrapper, name):
    class Item:
        pass

    alive = []
    for item in wrapper(Item() for _ in range(3)):
        alive.append(weakref.ref(item))
        del item
        gc.collect()
        assert [reference() for reference in alive] == [None] * len(alive)


def test_two_loops_side_by_side(session, spool_dir):
    for _ in ci.epochs(range(2)):
        for _ in zip(ci.batches(range(3)), ci.batches(range(3)), strict=True):
            pass
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("epoch")) == 2
    assert len(spool.named("batch")) == 12


# -- DataLoader ------------------------------------------------------------------------------------


def make_loader(delay, count=3, **options):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            time.sleep(delay)
            return torch.tensor([index])

    return DataLoader(Slow(), batch_size=1, **options)


def test_wait_for_a_data_loader_is_measured(session, spool_dir):
    loader = make_loader(0.02)
    for batch in ci.batches(loader):
        assert batch.shape == (1, 1)
        time.sleep(0.005)
    for span in flushed(spool_dir).named("batch"):
        assert isinstance(span["attrs"]["data_load_ns"], int)
        assert span["attrs"]["data_load_ns"] >= 20_000_000
        assert span["end_ns"] - span["start_ns"] < 20_000_000


def test_subclass_of_data_loader_counts(session, spool_dir):
    torch = pytest.importorskip("torch")

    class Mine(torch.utils.data.DataLoader):
        pass

    for _ in ci.batches(Mine([1, 2])):
        pass
    assert all("data_load_ns" in span["attrs"] for span in flushed(spool_dir).named("batch"))


def test_other_iterables_have_no_wait(session, spool_dir):
    for _ in ci.batches(range(3)):
        pass
    for _ in ci.epochs(make_loader(0)):
        pass
    turns = [span for span in flushed(spool_dir).spans if span["name"] != "data_load"]
    assert all("data_load_ns" not in span["attrs"] for span in turns)


def test_length_of_a_data_loader(memory):
    assert len(ci.batches(make_loader(0, count=5))) == 5


def test_data_loader_with_workers(session, spool_dir):
    loader = make_loader(0.001, count=6, num_workers=2)
    assert [int(batch) for batch in ci.batches(loader)] == list(range(6))
    assert len(flushed(spool_dir).named("batch")) == 6


def test_live_line_and_tree_do_not_need_the_loader(memory):
    for _ in ci.batches(make_loader(0)):
        pass
    nodes = ci.trace(format="dict", name="batch")["roots"]
    assert all(node["attrs"]["data_load_ns"] > 0 for node in nodes)
