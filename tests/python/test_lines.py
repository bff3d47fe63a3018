"""What `output="stdout"` and `sonde tail` show: levels, names, and the process of a line."""

import logging
import re
import sys

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from cli_runs import tail_of
from sonde_command import sonde_path

EPOCH_LINES = ["load", "epoch", "validation", "epoch", "validation", "cirron.session"]
STEP_LINES = ["batch", "batch", "report", "epoch", "metric", "validation"]


def a_run():
    """Two epochs of two steps, each with parts; a scope at every level."""
    with ci.scope("load"):
        pass
    for _ in ci.epochs(range(2)):
        for _ in ci.batches(range(2)):
            for part in ("data_load", "forward"):
                with ci.scope(part), ci.scope("own"):
                    pass
            with ci.scope("clip"):
                pass
        with ci.scope("report"):
            pass
        with ci.scope("validation"):
            with ci.scope("forward"):
                pass
            with ci.scope("metric"):
                pass


def names(text):
    return re.findall(r"^\[cirron\] ([\w.]+)", text, re.MULTILINE)


def shown(capsys, output, run=a_run):
    ci.profile(output=output, frameworks=[])
    run()
    ci.shutdown()
    return names(capsys.readouterr().out)


def test_a_line_per_step_is_the_default(capsys):
    wanted = ["load", *sorted(STEP_LINES * 2), "cirron.session"]
    assert sorted(shown(capsys, "stdout")) == sorted(wanted)
    assert sorted(shown(capsys, "stdout:step")) == sorted(wanted)


def test_epochs_only(capsys):
    assert sorted(shown(capsys, "stdout:epoch")) == sorted(EPOCH_LINES)


def test_everything(capsys):
    lines = shown(capsys, "stdout:all")
    assert lines.count("forward") == 6 and lines.count("own") == 8 and lines.count("clip") == 4


def test_a_name_is_shown_on_every_level(capsys):
    assert shown(capsys, "stdout:name=forw*") == ["forward"] * 6
    assert shown(capsys, "stdout:epoch,name=*a*") == ["load", *["validation"] * 2]


def test_each_sink_has_its_own(capsys, caplog):
    caplog.set_level(logging.INFO, logger="cirron.trace")
    lines = shown(capsys, ["stdout:epoch", "log:name=clip", "spool"])
    assert sorted(lines) == sorted(EPOCH_LINES)
    logged = [each.getMessage() for each in caplog.records if each.name == "cirron.trace"]
    assert names("\n".join(logged)) == ["clip"] * 4


def test_what_is_around_a_span_may_be_drained_later(capsys):
    def run():
        for _ in ci.epochs(range(1)):
            for _ in ci.batches(range(20)):
                with ci.scope("clip"):
                    ci.flush()
                ci.flush()
            with ci.scope("report"):
                ci.flush()

    lines = shown(capsys, "stdout", run)
    assert sorted(lines) == sorted(["batch"] * 20 + ["report", "epoch", "cirron.session"])


@pytest.mark.parametrize(
    "output",
    ["stdout:", "stdout:epochs", "stdout:name=", "stdout:all,", "stdout:all,nam=x", "spool:epoch",
     "none:all", "stdout:all,name=", ["stdout", "stdout:all"]],
)  # fmt: skip
def test_what_is_not_understood_raises(output, workdir):
    with pytest.raises(ValueError, match="output"):
        ci.profile(output=output)
    assert list(workdir.iterdir()) == []


TAILED = f"""
    import sys
    import cirron as ci
    sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
    from test_lines import a_run
    ci.profile(path=sys.argv[1], flush_interval=float(sys.argv[2]), frameworks=[])
    print("ready", flush=True)
    sys.stdin.readline()
    a_run()
"""


@pytest.mark.parametrize("interval", [3600, 0.02])
@pytest.mark.parametrize(
    "args, expected",
    [
        ([], ["load", *STEP_LINES * 2, "cirron.session"]),
        (["--level", "epoch"], EPOCH_LINES),
        (["--name", "c*p"], ["clip"] * 4),
        (["--level", "step", "--name", "forward"], []),
    ],
)
def test_tail(tmp_path, args, expected, interval):
    assert sonde_path()
    with RunningPython(TAILED, tmp_path, interval) as run:
        run.wait_for()
        with tail_of(tmp_path, *args) as tail:
            first = tail.stdout.readline()
            run.finish("go\n")
            output, errors = tail.communicate(timeout=30)
    assert re.fullmatch(rf"\[cirron\] pid {run.pid} \(rank 0\) has been running for \S+s\n", first)
    assert (tail.returncode, errors) == (0, "")
    assert all(line.startswith("[cirron] ") for line in output.splitlines())
    found = names(output)
    assert found.pop() == "pid"  # the farewell
    assert sorted(found) == sorted(expected)


def test_every_line_of_a_warning_says_whose_it_is(tmp_path):
    code = """
        import sys
        import cirron as ci
        from sonde import log
        ci.profile(output="none", frameworks=[])
        ci.profile()
        log.warn("cirron.hooks", "first\\nsecond")
        ci.watch(None)
        ci.shutdown()
        ci.profile(path=sys.argv[1], frameworks=["nothing"])
        ci.shutdown()
    """
    (tmp_path / "file").write_text("no directory")
    errors = run_python(code, tmp_path / "file").stderr.splitlines()
    assert len(errors) >= 5
    assert all(line.startswith("[cirron] ") for line in errors), errors


def test_a_stream_that_stands_in_for_stdout_sees_our_lines(monkeypatch, capfd):
    class Tee:
        """A stream as experiment loggers install it: everything but write() is the original's."""

        def __init__(self, stream):
            self.stream, self.text = stream, ""

        def __getattr__(self, name):
            return getattr(self.stream, name)

        def write(self, text):
            self.text += text
            return self.stream.write(text)

    tee = Tee(sys.stdout)
    monkeypatch.setattr(sys, "stdout", tee)
    ci.profile(output="stdout", frameworks=[])
    with ci.scope("work"):
        pass
    ci.shutdown()
    assert names(tee.text) == ["work", "cirron.session"]
