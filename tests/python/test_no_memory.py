"""Without memory less is recorded, and the program goes on."""

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
