"""output=: spool, log, stdout, none, and lists of them; the live line."""

import io
import logging
import re
import sys
import threading

import cirron as ci
import pytest
from child_process import run_python
from spool_files import Spool

LINE = re.compile(r"\[cirron\] epoch\[0\] - \d+us \{epoch_loss=0\.5234\}")


def one_epoch():
    for _ in ci.epochs(range(1)):
        ci.mark("epoch_loss", 0.5234, kind="summary")


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.INFO, logger="cirron.trace")
    return lambda: [record for record in caplog.records if record.name == "cirron.trace"]


def lines_of(text):
    return [line for line in text.splitlines() if line.startswith("[cirron] ")]


def test_spool_is_the_default(spool_dir, capsys, records):
    ci.profile()
    one_epoch()
    ci.shutdown()
    assert Spool(spool_dir).one("epoch")
    assert lines_of(capsys.readouterr().out) == []
    assert records() == []


def test_log(workdir, capsys, records):
    ci.profile(output="log", flush_interval=3600)
    one_epoch()
    ci.flush()
    (record,) = records()
    assert record.levelno == logging.INFO
    assert LINE.fullmatch(record.getMessage())
    ci.shutdown()
    assert [record.getMessage().split()[1] for record in records()] == [
        "epoch[0]",
        "cirron.session",
    ]
    assert lines_of(capsys.readouterr().out) == []
    assert list(workdir.iterdir()) == []


def test_log_line_with_a_percent_sign(records):
    ci.profile(output="log", flush_interval=3600)
    with ci.scope("100% of %s"):
        pass
    ci.flush()
    assert records()[0].getMessage().startswith("[cirron] 100% of %s - ")


def test_stdout(workdir, capsys, records):
    ci.profile(output="stdout", flush_interval=3600)
    one_epoch()
    ci.flush()
    (line,) = lines_of(capsys.readouterr().out)
    assert LINE.fullmatch(line)
    ci.shutdown()
    (last,) = lines_of(capsys.readouterr().out)
    assert re.fullmatch(r"\[cirron\] cirron\.session - .+", last)
    assert records() == []
    assert list(workdir.iterdir()) == []


def test_a_line_shows_marks_of_earlier_flushes(capsys):
    ci.profile(output="stdout", flush_interval=3600)
    with ci.scope("long"):
        ci.mark("first", 1)
        ci.flush()
        ci.mark("second", 2)
        ci.flush()
        ci.mark("third", 3)
    with ci.scope("many"):
        for number in range(100):
            ci.mark("m", number)
            if number % 30 == 0:
                ci.flush()
    ci.flush()
    long, many = lines_of(capsys.readouterr().out)
    assert long.endswith(" {first=1, second=2, third=3}")
    newest = ", ".join(f"m={number}" for number in range(36, 100))
    assert many.endswith(f" {{{newest}}}")


def test_stdout_is_the_one_of_the_moment(monkeypatch):
    ci.profile(output="stdout", flush_interval=3600)
    elsewhere = io.StringIO()
    monkeypatch.setattr(sys, "stdout", elsewhere)
    one_epoch()
    ci.flush()
    assert LINE.fullmatch(elsewhere.getvalue().rstrip("\n"))


def test_stdout_is_written_once_per_batch(monkeypatch):
    calls = []

    class Stream(io.StringIO):
        def write(self, text):
            calls.append(("write", text))
            return len(text)

        def flush(self):
            calls.append(("flush",))

    ci.profile(output="stdout", flush_interval=3600)
    ci.flush()  # the drain thread has drained once; the test starts the next flush
    for number in range(50):
        with ci.scope("x", index=number):
            pass
    monkeypatch.setattr(sys, "stdout", Stream())
    ci.flush()
    monkeypatch.undo()
    assert [call[0] for call in calls] == ["write", "flush"]
    assert calls[0][1].count("\n") == 50


def test_stdout_that_cannot_show_a_character():
    done = run_python(
        """
        import cirron as ci
        ci.profile(output="stdout")
        with ci.scope("日本"):
            pass
        """,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.startswith("[cirron] \\u65e5\\u672c - ")
    assert done.stderr == ""


def test_none_writes_nothing(workdir, capsys, records):
    ci.profile(output="none")
    one_epoch()
    ci.flush()
    assert ci.trace(format="dict", name="epoch")["span_count"] == 1
    ci.shutdown()
    assert lines_of(capsys.readouterr().out) == []
    assert records() == []
    assert list(workdir.iterdir()) == []


def test_list_fans_out(spool_dir, capsys, records):
    ci.profile(output=["spool", "log", "stdout"], flush_interval=3600)
    one_epoch()
    ci.flush()
    assert Spool(spool_dir).one("epoch")
    assert len(records()) == 1
    assert len(lines_of(capsys.readouterr().out)) == 1


def test_none_in_a_list_wins(workdir, capsys):
    ci.profile(output=["stdout", "none", "spool"])
    one_epoch()
    ci.shutdown()
    assert lines_of(capsys.readouterr().out) == []
    assert list(workdir.iterdir()) == []


def test_lines_come_in_the_order_of_closing(capsys):
    ci.profile(output="stdout", flush_interval=3600)
    with ci.scope("outer"):
        for number in range(5):
            with ci.scope("inner", index=number):
                pass
    ci.flush()
    names = [line.split()[1] for line in lines_of(capsys.readouterr().out)]
    assert names == [*(f"inner[{number}]" for number in range(5)), "outer"]


def test_durations_and_values_in_a_line(capsys):
    import time

    ci.profile(output="stdout", flush_interval=3600)
    with ci.scope("slow"):
        time.sleep(0.012)
        ci.mark("lr", 1e-5)
        ci.mark("flag", True)
    ci.flush()
    (line,) = lines_of(capsys.readouterr().out)
    assert re.fullmatch(r"\[cirron\] slow - \d+\.\dms \{lr=1e-05, flag=True\}", line)


def test_failing_sink_does_not_affect_the_others(spool_dir, monkeypatch, caplog, records):
    class Broken(io.StringIO):
        def write(self, text):
            raise OSError("terminal gone")

    handle = ci.profile(output=["spool", "stdout", "log"], flush_interval=3600)
    monkeypatch.setattr(sys, "stdout", Broken())
    for _ in range(3):
        one_epoch()
        ci.flush()
    monkeypatch.undo()
    assert len(Spool(spool_dir).named("epoch")) == 3
    assert len(records()) == 3
    complaints = [r for r in caplog.records if "terminal gone" in r.getMessage()]
    assert len(complaints) == 1
    assert complaints[0].levelno == logging.WARNING
    assert ci.health()["swallowed_errors"] == {"stdout sink": 3}
    assert ci.health()["swallowed_error_count"] == 3
    ci.shutdown()
    assert handle.health()["swallowed_error_count"] == 3, "also after the end"


def test_no_standard_output_at_all(monkeypatch, spool_dir):
    ci.profile(output=["spool", "stdout"], flush_interval=3600)
    monkeypatch.setattr(sys, "stdout", None)
    one_epoch()
    ci.flush()
    monkeypatch.undo()
    assert Spool(spool_dir).one("epoch")


def test_handler_that_calls_back_does_not_hang(caplog):
    """A handler may call health(), record, and even flush() while the log sink calls it."""
    seen = []

    class Curious(logging.Handler):
        def emit(self, record):
            seen.append(ci.health()["enabled"])
            if len(seen) < 5:
                with ci.scope("from the handler"):
                    ci.mark("m", 1)
                ci.flush()

    logger = logging.getLogger("cirron.trace")
    handler = Curious()
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, logger="cirron.trace")
    try:
        ci.profile(output="log", flush_interval=3600)
        one_epoch()
        worker = threading.Thread(target=ci.flush)
        worker.start()
        worker.join(20)
        assert not worker.is_alive()
        ci.shutdown()
    finally:
        logger.removeHandler(handler)
    assert seen


RAISES = """
import logging
import cirron as ci

class Raises(logging.Handler):
    def emit(self, record):
        logging.getLogger("cirron").removeHandler(self)
        raise what

def raise_at_the_next_message(error):
    global what
    what = error
    logging.getLogger("cirron").addHandler(Raises())
"""


def test_ctrl_c_in_a_log_handler_reaches_the_program(workdir):
    """profile() warns on the thread that calls it."""
    (workdir / "taken").touch()
    run_python(
        RAISES
        + """
raise_at_the_next_message(KeyboardInterrupt)
try:
    ci.profile(path="taken", frameworks=[])
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("the program did not get it")
assert "log" not in ci.health()["swallowed_errors"]
"""
    )


def test_what_a_log_handler_raises_on_a_thread_of_the_profiler_stays_there(workdir):
    run_python(
        RAISES
        + """
import time
from pathlib import Path

ci.profile(frameworks=[], flush_interval=0.05)
raise_at_the_next_message(SystemExit(3))
(journal,) = Path(".cirron/live").glob("*.journal")
journal.unlink()
until = time.monotonic() + 30
while not ci.health()["swallowed_errors"] and time.monotonic() < until:
    time.sleep(0.01)
assert ci.health()["swallowed_errors"] == {"log": 1}
"""
    )


def test_error_of_a_log_handler_is_counted(workdir):
    (workdir / "taken").touch()
    run_python(
        RAISES
        + """
raise_at_the_next_message(RuntimeError("no log"))
handle = ci.profile(path="taken", frameworks=[])
assert handle.enabled
assert ci.health()["swallowed_errors"]["log"] == 1
"""
    )


def test_log_below_its_level_costs_no_records(caplog):
    caplog.set_level(logging.WARNING, logger="cirron.trace")
    ci.profile(output="log", flush_interval=3600)
    one_epoch()
    ci.flush()
    assert [record for record in caplog.records if record.name == "cirron.trace"] == []


def test_a_stuck_handler_does_not_keep_the_program_from_ending(spool_dir):
    """It wakes up while the interpreter ends, and wants the GIL."""
    run_python(
        """
        import logging, time
        import cirron as ci

        class Stuck(logging.Handler):
            def emit(self, record):
                time.sleep(3)

        logging.getLogger("cirron.trace").addHandler(Stuck())
        logging.getLogger("cirron.trace").setLevel(logging.INFO)
        ci.profile(output=["spool", "log"], flush_interval=3600)
        with ci.scope("x"):
            pass

        class Slow:
            def __del__(self):
                time.sleep(3)

        slow = Slow()
        """
    )
    assert Spool(spool_dir).one("x")
