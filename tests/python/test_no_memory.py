"""Without memory less is recorded, and the program goes on."""

import pytest
from child_process import run_python


def test_an_attribute_larger_than_the_memory_that_is_left(tmp_path):
    done = run_python(
        """
        import resource, sys, cirron as ci

        ci.profile(path=sys.argv[1], frameworks=[])
        text = "a" * (300 << 20)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
        with ci.scope("big", text=text, number=1):
            pass
        with ci.scope("nested", items=[text, 2]):
            pass
        ci.mark("size", 1.0, text=text)
        del text
        roots = ci.trace(format="dict")["roots"]
        for span in roots[0]["children"]:
            print(span["name"], span["attrs"])
        """,
        tmp_path,
    )
    note = "<314572800 bytes, too long for an attribute>"
    assert done.stdout.splitlines() == [
        f"big {{'text': '{note}', 'number': 1}}",
        f"nested {{'items': ['{note}', 2]}}",
    ]


def test_a_task_that_gets_no_stack():
    pytest.importorskip("_testcapi")
    run_python(
        """
        import _testcapi, asyncio, cirron as ci

        async def task(number):
            scope = ci.scope("x")
            # Each task takes a stack here; in each another allocation of the interpreter fails.
            _testcapi.set_nomemory(number, number + 1)
            try:
                scope.__enter__()
            finally:
                _testcapi.remove_mem_hooks()
            scope.__exit__(None, None, None)
            with ci.scope("y"):
                await asyncio.sleep(0)

        async def main():
            for _ in range(10):
                await asyncio.gather(*(task(number) for number in range(20)))

        ci.profile(output="none", frameworks=[])
        asyncio.run(main())
        with ci.scope("last"):
            pass
        assert ci.trace(format="dict", name="last")["span_count"] == 1
        """
    )


def test_a_long_name_that_cannot_be_encoded_at_the_end():
    pytest.importorskip("_testcapi")
    run_python(
        """
import _testcapi, cirron as ci

# Long, and with a lone surrogate, it is encoded at every use.
name = "x" * 3000 + chr(0xD800)
ended = 0

def work():
    with ci.scope("outer"):
        scope = ci.scope(name)
        entered = scope.__enter__()
        _testcapi.remove_mem_hooks()
        if entered is None:
            return
        _testcapi.set_nomemory(*work.failing)
        scope.__exit__(None, None, None)
        _testcapi.remove_mem_hooks()
        with ci.scope("after"):
            pass

ci.profile(output="none", frameworks=[])
for number in range(20):
    work.failing = (number, number + 1)
    work()

def names(span):
    yield span["name"][:5], len(span["children"])
    for child in span["children"]:
        yield from names(child)

found = [each for root in ci.trace(format="dict")["roots"] for each in names(root)]
assert found.count(("xxxxx", 0)) == 20, found
"""
    )
