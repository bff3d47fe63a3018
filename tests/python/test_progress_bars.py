"""Our lines on a terminal with a progress bar: none of them shares a line with it."""

import pytest
from terminals import run_on_terminal, screen_of

# A bar that is drawn all the time, our lines in between, and a warning.
WITH_TQDM = """
    import sys, time
    import cirron as ci
    from tqdm import tqdm

    ci.profile(output="stdout", flush_interval=0.01, frameworks=[])
    for _ in tqdm(range(40), file=getattr(sys, sys.argv[1]), ascii=True, mininterval=0):
        with ci.scope("work"):
            time.sleep(0.005)
        if _ == 20:
            ci.profile()  # a second time: a warning
    ci.shutdown()
    print("the end")
"""


def check(screen, bar):
    """Every line is whole: one of ours, one of the bar, or empty."""
    for line in screen:
        assert line.count("[cirron]") == (1 if line.startswith("[cirron] ") else 0), line
        assert not (line.startswith("[cirron]") and bar in line), line


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_lines_stand_above_a_bar_of_tqdm(stream):
    pytest.importorskip("tqdm")
    screen = screen_of(run_on_terminal(WITH_TQDM, stream))
    check(screen, "it/s")
    assert sum(line.startswith("[cirron] work - ") for line in screen) == 40
    assert sum("called more than once" in line for line in screen) == 1
    (bar,) = [line for line in screen if "it/s" in line]
    assert bar.startswith("100%") and "40/40" in bar


def test_a_bar_that_is_locked_does_not_hold_up_the_line():
    pytest.importorskip("tqdm")
    code = """
        import threading, time
        import cirron as ci
        from tqdm import tqdm

        ci.profile(output="stdout", flush_interval=3600, frameworks=[])
        bar = tqdm(total=3, ascii=True)
        held, leave = threading.Event(), threading.Event()

        def hold():
            with tqdm.get_lock():
                held.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        with ci.scope("work"):
            pass
        ci.flush()
        leave.set()
        thread.join()
        bar.close()
        ci.shutdown()
    """
    screen = screen_of(run_on_terminal(code))
    check(screen, "it/s")
    assert sum(line.startswith("[cirron] work - ") for line in screen) == 1


def test_lines_stand_above_a_bar_of_rich():
    pytest.importorskip("rich")
    code = """
        import time
        import cirron as ci
        from rich.progress import track

        ci.profile(output="stdout", flush_interval=3600, frameworks=[])
        for _ in track(range(20), description="Training"):
            with ci.scope("work"):
                time.sleep(0.01)
            ci.flush()  # on the drain thread; rich mixes up what comes in while it ends
            if _ == 10:
                ci.profile()
        ci.shutdown()
    """
    screen = screen_of(run_on_terminal(code))
    check(screen, "Training")
    assert sum(line.startswith("[cirron] work - ") for line in screen) == 20
    assert sum("called more than once" in line for line in screen) == 1


def test_nothing_is_cleared_without_a_bar():
    code = """
        import cirron as ci
        ci.profile(output="stdout", flush_interval=3600, frameworks=[])
        print("loss: ", end="", flush=True)
        with ci.scope("work"):
            pass
        ci.flush()
        ci.shutdown()
    """
    text = run_on_terminal(code)
    assert "\033[K" not in text
    assert screen_of(text)[0].startswith("loss: ")


def test_a_warning_of_python_stands_beside_the_bar_too():
    pytest.importorskip("tqdm")
    code = """
        import contextlib
        import cirron as ci
        from tqdm import tqdm

        bar = tqdm(total=3, ascii=True)
        bar.update()
        with contextlib.ExitStack() as stack:
            for _ in range(65):
                stack.enter_context(ci.scope("deep"))
        bar.update()
        bar.close()
    """
    screen = screen_of(run_on_terminal(code))
    (warning,) = [line for line in screen if "MAX_DEPTH" in line]
    assert "UserWarning: [cirron] more than MAX_DEPTH" in warning and "it/s" not in warning
    (bar,) = [line for line in screen if "2/3" in line]
    assert bar.startswith(" 67%")
