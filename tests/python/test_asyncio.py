"""asyncio: a stack per task, parents from where the task was made, marks on the task's own span."""

import asyncio
import contextvars
import gc
import threading

import cirron as ci
import pytest
from spool_files import Spool


def finished(spool_dir):
    ci.shutdown()
    return Spool(spool_dir)


def test_interleaved_tasks_do_not_nest_into_each_other(session, spool_dir):
    async def request(number):
        with ci.scope("outer", index=number):
            await asyncio.sleep(0)
            with ci.scope("inner", index=number):
                await asyncio.sleep(0.001 * (number % 3))
                ci.mark("number", number)
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(request(number) for number in range(20)))

    asyncio.run(main())
    spool = finished(spool_dir)
    for number in range(20):
        (outer,) = [span for span in spool.named("outer") if span["index"] == number]
        (inner,) = [span for span in spool.named("inner") if span["index"] == number]
        assert spool.path(inner) == ["cirron.session", "outer", "inner"]
        assert inner["parent_id"] == outer["id"]
        assert [mark["value"] for mark in spool.marks_of(inner)] == [number]
        assert "sonde.closed_by" not in inner["attrs"] | outer["attrs"]


def test_task_inherits_the_scope_it_was_made_in(session, spool_dir):
    async def child():
        with ci.scope("child"):
            await asyncio.sleep(0)

    async def main():
        with ci.scope("parent"):
            await asyncio.gather(child(), child())
        with ci.scope("after"):
            pass

    asyncio.run(main())
    spool = finished(spool_dir)
    for span in spool.named("child"):
        assert spool.path(span)[-2:] == ["parent", "child"]
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


def test_task_that_outlives_the_scope_it_was_made_in(session, spool_dir):
    async def late():
        await asyncio.sleep(0.01)
        with ci.scope("late"):
            ci.mark("m", 1)

    async def main():
        with ci.scope("parent"):
            task = asyncio.create_task(late())
        with ci.scope("other"):
            await task

    asyncio.run(main())
    spool = finished(spool_dir)
    assert spool.path(spool.one("other")) == ["cirron.session", "other"]
    assert spool.path(spool.one("late"))[-2:] in (["parent", "late"], ["cirron.session", "late"])
    assert spool.mark("m")["span_id"] == spool.one("late")["id"]


def test_scope_around_the_loop_stays_open(session, spool_dir):
    async def main():
        with ci.scope("inside"):
            await asyncio.sleep(0)

    with ci.scope("around"):
        asyncio.run(main())
        with ci.scope("then"):
            pass
    spool = finished(spool_dir)
    assert spool.path(spool.one("inside")) == ["cirron.session", "around", "inside"]
    assert spool.path(spool.one("then")) == ["cirron.session", "around", "then"]


def test_cancelled_tasks_close_their_scopes(session, spool_dir):
    async def forever():
        with ci.scope("cancelled"):
            await asyncio.sleep(3600)

    async def main():
        tasks = [asyncio.create_task(forever()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with ci.scope("after"):
            pass

    asyncio.run(main())
    spool = finished(spool_dir)
    assert len(spool.named("cancelled")) == 5
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


def test_async_generators_and_loops(session, spool_dir):
    async def numbers():
        for number in range(3):
            with ci.scope("produced", index=number):
                yield number
                await asyncio.sleep(0)

    async def consume():
        async for _ in numbers():
            with ci.scope("consumed"):
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(consume(), consume())

    asyncio.run(main())
    spool = finished(spool_dir)
    assert len(spool.named("produced")) == len(spool.named("consumed")) == 6
    for span in spool.named("consumed"):
        assert spool.path(span) == ["cirron.session", "produced", "consumed"]


def test_epochs_and_batches_in_tasks(session, spool_dir):
    async def train(number):
        for epoch in ci.epochs(range(2)):
            for batch in ci.batches(range(3)):
                ci.mark("who", f"{number}/{epoch}/{batch}")
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(train(number) for number in range(4)))

    asyncio.run(main())
    spool = finished(spool_dir)
    assert len(spool.named("epoch")) == 8
    assert len(spool.named("batch")) == 24
    for span in spool.named("batch"):
        assert spool.path(span) == ["cirron.session", "epoch", "batch"]
        (mark,) = spool.marks_of(span)
        _, epoch, batch = mark["value"].split("/")
        assert span["index"] == int(batch)
        assert spool.by_id[span["parent_id"]]["index"] == int(epoch)


def test_thousands_of_tasks(session, spool_dir):
    async def one(number):
        with ci.scope("task", index=number):
            await asyncio.sleep(0)

    async def main():
        for start in range(0, 5000, 500):
            await asyncio.gather(*(one(start + number) for number in range(500)))

    asyncio.run(main())
    health = ci.health()
    spool = finished(spool_dir)
    assert sorted(span["index"] for span in spool.named("task")) == list(range(5000))
    assert health["scope_drop_count"] == 0


def test_more_tasks_than_stacks_are_counted_and_others_go_on(memory):
    async def one(number, gate):
        with ci.scope("task", index=number):
            await gate.wait()

    async def main():
        gate = asyncio.Event()
        tasks = [asyncio.create_task(one(number, gate)) for number in range(6000)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    recorded = len(ci.trace(format="df", name="task"))
    assert recorded > 3000
    assert recorded + ci.health()["span_drop_count"] == 6000
    for number in range(20_000):
        with ci.scope("after", index=number):
            pass
    assert len(ci.trace(format="df", name="after")) == 20_000


def test_tasks_left_over_at_shutdown(session, spool_dir):
    async def stuck():
        with ci.scope("stuck"):
            await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        ci.shutdown()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert Spool(spool_dir).one("stuck")["attrs"]["sonde.closed_by"]


def test_tasks_that_are_never_awaited(session, spool_dir):
    async def abandoned():
        with ci.scope("abandoned"):
            await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(abandoned())
        await asyncio.sleep(0)
        del task

    asyncio.run(main())
    gc.collect()
    with ci.scope("after"):
        pass
    spool = finished(spool_dir)
    assert spool.one("abandoned")
    assert spool.path(spool.one("after")) == ["cirron.session", "after"]


def test_work_handed_to_threads(session, spool_dir):
    def work(number):
        with ci.scope("in a thread", index=number):
            pass

    async def main():
        with ci.scope("parent"):
            await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(10)))

    asyncio.run(main())
    spool = finished(spool_dir)
    assert len(spool.named("in a thread")) == 10
    for span in spool.named("in a thread"):
        assert span["parent_id"] in spool.by_id


def test_loops_in_several_threads(session, spool_dir):
    async def one(number):
        with ci.scope("task", index=number):
            await asyncio.sleep(0.001)

    async def main():
        await asyncio.gather(*(one(number) for number in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished(spool_dir).named("task")) == 80


def test_contexts_copied_by_hand(session, spool_dir):
    def inside():
        with ci.scope("inside"):
            pass

    with ci.scope("outer"):
        contextvars.copy_context().run(inside)
    spool = finished(spool_dir)
    assert spool.path(spool.one("inside")) == ["cirron.session", "outer", "inside"]


def test_eager_tasks(session, spool_dir):
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("eager tasks came with Python 3.12")

    async def child(number):
        with ci.scope("child", index=number):
            await asyncio.sleep(0)

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        with ci.scope("parent"):
            await asyncio.gather(*(child(number) for number in range(5)))

    asyncio.run(main())
    spool = finished(spool_dir)
    for span in spool.named("child"):
        assert spool.path(span)[-2:] == ["parent", "child"]


def test_next_session_in_the_same_task_has_its_spans():
    async def main():
        for _ in range(2):
            ci.profile(output="none")
            with ci.scope("work"):
                await asyncio.sleep(0)
                await asyncio.create_task(child())
            shown = ci.trace(format="dict")
            ci.shutdown()
        return shown

    async def child():
        with ci.scope("child"):
            pass

    shown = asyncio.run(main())
    (root,) = shown["roots"]
    assert [span["name"] for span in root["children"]] == ["work"]
    assert [span["name"] for span in root["children"][0]["children"]] == ["child"]
