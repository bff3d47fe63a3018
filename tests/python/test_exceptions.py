"""Exceptions in the trace: uncaught ones, and those that pass through spans."""

import json
import signal
import subprocess
import sys

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from ended_programs import ending, program, raised, run, session_line
from sonde_command import sonde
from spool_files import Spool
from trees import spans

# -- uncaught exceptions --


def test_an_uncaught_exception_is_on_the_spans_that_are_still_open(tmp_path):
    then = """
        outer, inner = ci.scope("outer", k=1), ci.scope("inner")
        outer.__enter__()
        with ci.scope("over"):
            pass
        inner.__enter__()
        def fail():
            kept = ci.epochs(range(3))
            for epoch in kept:
                raise RuntimeError('boom "quoted"\\n')
        fail()
    """
    done, spool = run(tmp_path, then)
    assert done.returncode == 1
    expected = ("RuntimeError", 'boom "quoted"\n')
    for name in ("outer", "inner", "epoch", "cirron.session"):
        assert raised(spool.one(name)) == expected, name
    assert spool.one("outer")["attrs"]["k"] == 1
    assert raised(spool.one("over")) == (None, None)
    printed = sonde("trace", tmp_path / "out").stdout
    assert printed.count('[ended by RuntimeError: boom "quoted"\\n]') == 4


def test_the_case_of_a_plain_loop_that_raises(tmp_path):
    """The exception is on the session, on the last step, and on the epoch that it ended."""
    pytest.importorskip("torch")
    case = """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        m=torch.nn.Linear(4,1); o=torch.optim.SGD(m.parameters(),lr=.1)
        for e in range(2):
            for i,(x,) in enumerate(DataLoader(TensorDataset(torch.randn(32,4)),8)):
                o.zero_grad(); m(x).pow(2).mean().backward(); o.step()
                if e==1 and i==2: raise RuntimeError("boom")
    """
    done, spool = run(tmp_path, case)
    assert done.returncode == 1
    boom = ("RuntimeError", "boom")
    assert [raised(epoch) for epoch in spool.named("epoch")] == [(None, None), boom]
    assert [raised(step) for step in spool.named("step")] == [(None, None)] * 6 + [boom]
    assert raised(spool.one("cirron.session")) == boom


def test_a_run_that_hangs_after_an_exception_and_is_killed(tmp_path):
    """A thread that never ends keeps the process: the autopsy still knows the exception."""
    code = program("""
        threading.Thread(target=time.sleep, args=(600,)).start()
        scope = ci.scope("open")
        scope.__enter__()
        def soon():
            while not hasattr(sys, "last_value"):
                time.sleep(0.01)
            time.sleep(0.2)
            print("ready", flush=True)
        threading.Thread(target=soon).start()
        raise RuntimeError("boom")
    """)
    with RunningPython(code, tmp_path / "out") as child:
        child.wait_for()
        child.signal(signal.SIGKILL)
        child.finish(timeout=20)
    printed = sonde("autopsy", tmp_path / "out").stdout
    assert "uncaught exception RuntimeError: boom" in printed
    spool = Spool(tmp_path / "out/spool")
    for name in ("open", "cirron.session"):
        assert raised(spool.one(name)) == ("RuntimeError", "boom")
    assert "[ended by RuntimeError: boom, closed by death]" in session_line(tmp_path)


def test_an_exception_on_another_thread(tmp_path):
    then = """
        def work():
            scope = ci.scope("on the thread")
            scope.__enter__()
            raise ValueError("there")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with ci.scope("later"):
            pass
    """
    done, spool = run(tmp_path, then)
    assert "ValueError: there" in done.stderr
    assert raised(spool.one("on the thread")) == ("ValueError", "there")
    assert raised(spool.one("later")) == (None, None)
    session = spool.one("cirron.session")
    assert raised(session) == ("ValueError", "there")
    assert session["attrs"]["ended_by"] == "return"
    assert session_line(tmp_path).endswith("[uncaught ValueError: there]")


def test_shutdown_on_the_way_of_an_exception(tmp_path):
    then = """
        try:
            raise ValueError("before")
        finally:
            ci.shutdown()
    """
    _, spool = run(tmp_path, then)
    assert ending(spool.one("cirron.session")) == {
        "ended_by": "shutdown",
        "exception": "ValueError",
        "exception_message": "before",
    }


# -- beside other hooks --


def test_the_hook_of_the_program_is_called_and_comes_back(tmp_path):
    then = """
        ci.shutdown()
        def mine(*args): print("mine", args[0].__name__, flush=True)
        def mine_too(args): print("thread", args.exc_type.__name__, flush=True)
        sys.excepthook, threading.excepthook = mine, mine_too
        ci.profile(path=sys.argv[1])
        assert sys.excepthook is not mine
        ci.shutdown()
        assert sys.excepthook is mine and threading.excepthook is mine_too
        ci.profile(path=sys.argv[1])
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        raise RuntimeError("boom")
    """
    done, spool = run(tmp_path, then)
    assert done.stdout.split() == ["thread", "ZeroDivisionError", "mine", "RuntimeError"]
    assert raised(spool.named("cirron.session")[-1]) == ("RuntimeError", "boom")


def test_a_hook_that_is_set_later_is_left_alone(tmp_path):
    then = """
        scope = ci.scope("open")
        scope.__enter__()
        sys.excepthook = lambda *args: print("mine", flush=True)
        later = sys.excepthook
        import atexit
        atexit.register(lambda: print(sys.excepthook is later, flush=True))
        raise RuntimeError("boom")
    """
    done, spool = run(tmp_path, then)
    assert done.stdout.split() == ["mine", "True"]
    for name in ("open", "cirron.session"):
        assert raised(spool.one(name)) == ("RuntimeError", "boom")


def test_a_tool_that_was_put_on_top_keeps_its_place(tmp_path):
    then = """
        below = sys.excepthook
        def tool(*args):
            print("tool", flush=True)
            below(*args)
        for _ in range(3):
            sys.excepthook = tool
            ci.shutdown()
            assert sys.excepthook is tool
            ci.profile(path=sys.argv[1])
        raise RuntimeError("boom")
    """
    done, _ = run(tmp_path, then)
    assert done.stdout.split() == ["tool"]
    assert done.stderr.count("RuntimeError: boom") == 1


def test_a_hook_that_is_called_by_hand_ends_nothing(tmp_path):
    then = """
        scope = ci.scope("open")
        scope.__enter__()
        try:
            raise RuntimeError("logged")
        except RuntimeError:
            sys.excepthook(*sys.exc_info())
    """
    done, spool = run(tmp_path, then)
    assert "RuntimeError: logged" in done.stderr
    assert raised(spool.one("open")) == (None, None)
    assert ending(spool.one("cirron.session")) == {"ended_by": "return", "exit_code": 0}


def test_an_exception_at_a_prompt_ends_only_its_line(tmp_path):
    lines = f"import cirron as ci; ci.profile(path={str(tmp_path / 'out')!r})\n1 / 0\nexit(0)\n"
    done = subprocess.run(
        [sys.executable, "-i", "-q"], input=lines, capture_output=True, text=True, timeout=60
    )
    assert "ZeroDivisionError" in done.stderr
    session = Spool(tmp_path / "out/spool").one("cirron.session")
    assert ending(session) == {"ended_by": "return", "exit_code": 0}


def test_nothing_is_imported_for_it(tmp_path):
    then = """
        assert "threading" not in sys.modules or had
        raise RuntimeError("boom")
    """
    code = "import sys; had = 'threading' in sys.modules\n" + program(then).replace(
        "threading, ", ""
    )
    run_python(code, tmp_path / "out", check=False)
    assert raised(Spool(tmp_path / "out/spool").one("cirron.session")) == ("RuntimeError", "boom")


# -- exceptions that pass through spans --


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError("no text")


class Module:
    class NestedError(LookupError):
        pass


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (ValueError("plain"), "ValueError", "plain"),
        (ValueError(), "ValueError", ""),
        (KeyError("key"), "KeyError", "'key'"),
        (ValueError("a", 1), "ValueError", "('a', 1)"),
        (FileNotFoundError(2, "gone", "f"), "FileNotFoundError", "[Errno 2] gone: 'f'"),
        (json.JSONDecodeError("bad", "{", 1), "json.decoder.JSONDecodeError", None),
        (UnprintableError("raised with this"), f"{__name__}.UnprintableError", "raised with this"),
        (Module.NestedError("x"), f"{__name__}.Module.NestedError", "x"),
        (ValueError("\ud800 lone"), "ValueError", "\ud800 lone"),
    ],
    ids=repr,
)
def test_type_and_message(memory, error, name, message):
    for _ in range(2):
        try:
            for _ in ci.epochs(range(2)):
                with ci.scope("scope", k=1), ci.scope("bare"):
                    raise error
        except type(error):
            pass
    for span in spans("scope") + spans("bare") + spans("epoch"):
        assert raised(span)[0] == name
        if message is not None:
            assert raised(span)[1] == message
    assert [span["attrs"]["k"] for span in spans("scope")] == [1, 1]


def test_long_messages_are_cut(memory):
    for message in ("x" * 100_000, "é" * 100_000, "\x00" * 100_000):
        with pytest.raises(RuntimeError), ci.scope("cut"):
            raise RuntimeError(message)
        text = raised(spans("cut")[-1])[1]
        assert 50 < len(text.encode()) <= 400
        assert message.startswith(text)


def test_turns_see_it_without_running_code_of_the_program(memory):
    class LoudError(Exception):
        def __str__(self):
            raise AssertionError("asked")

        __repr__ = __str__

    class Value:
        __repr__ = LoudError.__repr__

    with pytest.raises(LoudError):
        for _ in ci.batches([1, 2]):
            raise LoudError("text", Value())
    name, message = raised(spans("batch")[0])
    assert name.endswith("LoudError")
    assert message.startswith("text, <")
    assert "Value" in message


def test_what_ends_in_order_has_none(memory):
    def numbers():
        with ci.scope("generator"):
            yield from ci.epochs(range(5))

    for _ in numbers():
        break
    for _ in ci.batches(range(3)):
        break
    try:
        raise ValueError
    except ValueError:
        with ci.scope("in a handler"):
            pass
        for _ in ci.batches(range(3)):
            break
    for name in ("generator", "epoch", "batch", "in a handler"):
        assert all(raised(span) == (None, None) for span in spans(name)), name


def test_an_attribute_of_the_programs_stays(memory):
    with pytest.raises(ValueError), ci.scope("own", exception="mine") as span:
        span.attrs["more"] = 1
        raise ValueError("ours")
    assert spans("own")[0]["attrs"] == {"exception": "mine", "more": 1}


def test_the_exception_itself_is_not_touched(memory):
    error = ValueError("same")
    with pytest.raises(ValueError) as caught:
        for _ in ci.epochs(range(1)):
            with ci.scope("a"):
                raise error
    assert caught.value is error
    assert error.__context__ is None
    assert error.args == ("same",)


def test_the_name_table_is_not_filled_by_messages(memory):
    """A trainer may raise again and again, each time with another text."""
    from sonde import _core

    for number in range(3000):
        with ci.scope("held"):
            _core.scopes.note_exception(ValueError(f"{number:0300}"))
    with ci.scope("a name of its own"):
        pass
    assert spans("a name of its own")
    assert raised(spans("held")[0])[0] == "ValueError"
