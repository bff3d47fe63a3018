"""The kernel event stream, and what stands in for HTTP in this version."""

import json
import logging

import cirron as ci
import pytest
from child_process import run_python
from spool_files import Spool, strict_json

PROGRAM = """
    import sys
    import cirron as ci
    handle = ci.profile({arguments})
    print("a line of the program", flush=True)
    with ci.scope("x", text="quote \\" and ünï"):
        ci.mark("loss", float("nan"))
    {then}
"""


def events(text):
    found = []
    for line in text.splitlines():
        if line.startswith('{"__cirron_event__"'):
            found.append(strict_json(line))
    return found


def run(then="", arguments="", env=None):
    done = run_python(PROGRAM.format(then=then, arguments=arguments), env=env)
    return done, events(done.stdout)


@pytest.mark.parametrize("variable", ["CIRRON_RUN_ID", "CIRRON_DEPLOYMENT_ID"])
def test_event_stream_inside_a_pipeline_or_deployment(variable):
    _, found = run(
        "ci.flush(); assert ci.health()['transport'] == 'EventStreamTransport'", env={variable: "r"}
    )
    assert found
    for event in found:
        assert list(event) == ["__cirron_event__", "schema_version", "sdk_version", "payload"]
        assert event["__cirron_event__"] == "trace_batch"
        assert event["schema_version"] == 1
        assert event["sdk_version"] == ci.__version__
    names = [span["name"] for event in found for span in event["payload"]["spans"]]
    assert sorted(names) == ["cirron.session", "x"]


def test_event_lines_are_compact_and_are_what_the_spool_has(workdir):
    done, found = run("ci.shutdown()", env={"CIRRON_RUN_ID": "r"})
    spool = Spool(workdir / ".cirron/spool")
    assert [event["payload"] for event in found] == spool.batches
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            assert line == json.dumps(
                json.loads(line), separators=(",", ":"), ensure_ascii="ü" not in line
            )


def test_the_exit_status_comes_too_late_for_the_stream(workdir):
    """The interpreter, and standard output with it, is gone by then: only the spool has it."""
    _, found = run(env={"CIRRON_RUN_ID": "r"})
    (sent,) = [s for e in found for s in e["payload"]["spans"] if s["name"] == "cirron.session"]
    kept = Spool(workdir / ".cirron/spool").one("cirron.session")
    assert sent["attrs"]["ended_by"] == "exit"
    assert kept["attrs"] == sent["attrs"] | {"ended_by": "return", "exit_code": 0}


@pytest.mark.parametrize(
    "then",
    [
        "ci.flush()",
        "ci.trace(format='dict')",
        "ci.shutdown()",
        "",
        "raise SystemExit",
    ],
)
def test_every_way_of_draining_sends(then):
    _, found = run(then, env={"CIRRON_RUN_ID": "r"})
    names = [span["name"] for event in found for span in event["payload"]["spans"]]
    assert sorted(names) == ["cirron.session", "x"]


def test_output_none_still_ships(workdir):
    _, found = run(arguments='output="none"', env={"CIRRON_RUN_ID": "r"})
    assert [span["name"] for event in found for span in event["payload"]["spans"]]
    assert list(workdir.iterdir()) == []


def test_stream_is_the_one_bound_at_profile():
    _, found = run("import io; sys.stdout = io.StringIO()", env={"CIRRON_RUN_ID": "r"})
    assert found


def test_broken_stream_keeps_the_batches_in_the_spool(workdir):
    done = run_python(
        """
        import os, sys
        import cirron as ci
        ci.profile(flush_interval=3600)
        sys.stdout.close()
        for number in range(3):
            with ci.scope("x", index=number):
                pass
            ci.flush()
        assert ci.health()["enabled"]
        """,
        env={"CIRRON_RUN_ID": "r"},
        check=False,
    )
    assert len(Spool(workdir / ".cirron/spool").named("x")) == 3
    assert done.stderr.count("closed file") == 1


def test_no_standard_output_at_all(workdir):
    run_python(
        """
        import sys
        sys.stdout = None
        import cirron as ci
        ci.profile()
        with ci.scope("x"):
            pass
        """,
        env={"CIRRON_RUN_ID": "r"},
    )
    assert Spool(workdir / ".cirron/spool").one("x")


def test_event_stream_does_not_depend_on_the_encoding_of_the_output():
    done = run_python(
        """
        import cirron as ci
        ci.profile(output="none")
        with ci.scope("日本"):
            pass
        """,
        env={"CIRRON_RUN_ID": "r", "PYTHONIOENCODING": "ascii"},
    )
    assert "日本" in [span["name"] for e in events(done.stdout) for span in e["payload"]["spans"]]


def test_pipeline_without_run_id_is_no_stream():
    _, found = run(
        "assert ci.health()['transport'] == 'FileOnlyTransport'",
        env={"CIRRON_PIPELINE_ID": "p", "CIRRON_WORKSPACE_ID": "w", "CIRRON_RUN_ID": ""},
    )
    assert found == []


def test_api_key_says_once_that_nothing_is_sent(spool_dir, caplog):
    handle = ci.Cirron(api_key="secret-key").profile()
    with ci.scope("x"):
        pass
    ci.flush()
    ci.flush()
    assert handle.health()["transport"] == "FileOnlyTransport"
    (record,) = [r for r in caplog.records if "HTTP" in r.message]
    assert record.levelno == logging.WARNING
    assert str(spool_dir) in record.message
    assert "secret-key" not in caplog.text
    assert Spool(spool_dir).one("x")


def test_run_id_wins_over_api_key(caplog, capsys, monkeypatch):
    monkeypatch.setenv("CIRRON_RUN_ID", "r")
    handle = ci.Cirron(api_key="k").profile()
    assert handle.health()["transport"] == "EventStreamTransport"
    assert "HTTP" not in caplog.text


def test_lines_of_the_program_and_events_do_not_mix(workdir):
    done = run_python(
        """
        import threading
        import cirron as ci
        ci.profile(flush_interval=0.002, output=["stdout"])
        def work():
            for number in range(300):
                with ci.scope("x", index=number):
                    pass
                print("program", number, flush=True)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        # Unbuffered, print() writes half lines, and even its own lines mix.
        env={"CIRRON_RUN_ID": "r", "PYTHONUNBUFFERED": ""},
    )
    found = events(done.stdout)
    assert sum(span["name"] == "x" for e in found for span in e["payload"]["spans"]) == 1200
