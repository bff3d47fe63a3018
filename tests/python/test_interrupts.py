"""Ctrl-C while an object of the program is asked for something: the program gets it."""

import ctypes
import textwrap
import threading

import cirron as ci
import pytest
from child_process import run_python
from no_threads import NO_THREADS

PROGRAM = """
import os, signal, sys
import cirron as ci

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)  # its handler runs here, before kill() returns
    raise AssertionError("not interrupted")

class Repr:
    def __repr__(self):
        interrupt()

class Item:
    def item(self):
        interrupt()

class Key:
    def __str__(self):
        interrupt()

class Items(list):
    def __iter__(self):
        interrupt()

class Sized:
    def __iter__(self):
        return iter(range(3))
    def __len__(self):
        interrupt()

ci.profile(path=sys.argv[1], frameworks=[], snapshots="stats")
"""


def interrupted(tmp_path, code, setup=PROGRAM):
    """Runs the code, in which an interrupt has to arrive once, and code after it."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    after = """
try:
    for _ in range(100):
        pass
except KeyboardInterrupt:
    print("interrupted again")
ci.shutdown()
print("ended")
"""
    program = f"{setup}\ntry:\n{body}\nexcept KeyboardInterrupt:\n    print('interrupted')\n{after}"
    done = run_python(program, tmp_path)
    if "cannot filter" in done.stdout:
        pytest.skip("cannot filter calls here")
    assert [line for line in done.stdout.splitlines() if line in WORDS] == WORDS[:2], done.stdout


WORDS = ["interrupted", "ended", "interrupted again"]


@pytest.mark.parametrize("value", ["Repr()", "Item()", "{Key(): 1}", "Items()", "[Repr()]"])
@pytest.mark.parametrize("use", ["scope", "mark"])
def test_an_attribute_that_is_interrupted(tmp_path, use, value):
    recorded = {
        "scope": f"with ci.scope('x', a={value}):\n    pass",
        "mark": f"ci.mark('x', 1.0, a={value})",
    }
    interrupted(tmp_path, recorded[use])


def test_a_length_that_is_interrupted(tmp_path):
    interrupted(tmp_path, "for _ in ci.batches(Sized()):\n    pass")


def test_the_length_of_a_loader_that_is_interrupted(tmp_path):
    pytest.importorskip("torch")
    setup = PROGRAM.replace("frameworks=[]", "frameworks=['torch']")
    setup += """
import torch
from torch.utils.data import DataLoader

class Loader(DataLoader):
    def __len__(self):
        interrupt()
"""
    interrupted(tmp_path, "for _ in Loader(torch.ones(4, 1)):\n    pass", setup)


def test_a_sink_that_the_main_thread_calls_is_interrupted(tmp_path):
    """Where no thread can be started, flush() calls the sinks."""
    outputs = "frameworks=[], output=['stdout'], flush_interval=3600"
    setup = NO_THREADS + PROGRAM.replace("frameworks=[]", outputs)
    code = """
    with ci.scope("first"):
        pass
    class Output:
        def write(self, text):
            sys.stdout = sys.__stdout__
            interrupt()
        def flush(self):
            pass
    sys.stdout = Output()
    ci.flush()
    """
    interrupted(tmp_path, code, setup)


def test_an_interrupt_while_the_queue_of_pending_calls_is_full(memory):
    """It is then raised on the thread that it came on, as an object of its class."""
    add = ctypes.pythonapi.Py_AddPendingCall
    nothing = ctypes.cast(ctypes.pythonapi.PyErr_Occurred, ctypes.c_void_p)
    seen = []

    class Interrupted:
        def __repr__(self):
            # The main thread waits for this one, so nothing empties the queue.
            while add(nothing, None) == 0:
                pass
            raise KeyboardInterrupt

    def work():
        try:
            with ci.scope("x", a=Interrupted()):
                pass
            for _ in range(100):
                pass
        except KeyboardInterrupt:
            seen.append("interrupted")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["interrupted"]
