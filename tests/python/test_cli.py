"""The command `sonde`, and `sonde trace`."""

import json
import re
import shutil
import subprocess

import pytest
from child_process import RunningPython, run_python
from cli_runs import CHILD, REFERENCE
from sonde_command import sonde, sonde_path

# --- the command itself ---------------------------------------------------------------------------


def test_help_lists_the_commands():
    for args in ([], ["--help"]):
        text = sonde(*args).stdout
        assert all(command in text for command in ("trace", "snapshots", "autopsy", "tail"))


def test_version():
    assert sonde("--version").stdout.startswith("sonde 0.")


@pytest.mark.parametrize("args", [["bogus"], ["trace", "--bogus"], ["trace", ".", "--last", "x"]])
def test_a_wrong_call_is_reported_on_standard_error(args):
    done = sonde(*args, status=2)
    assert done.stdout == ""
    assert "--help" in done.stderr


def test_a_reader_that_leaves_is_no_error():
    command = f"set -o pipefail; {sonde_path()} trace {REFERENCE} --limit 0 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_cannot_be_written_is_reported(tmp_path):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sonde_path(), "trace", REFERENCE], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert "cannot write" in done.stderr


@pytest.mark.parametrize("more", [[], ["--help"], ["somewhere"]])
def test_a_command_that_there_is_not_is_named(more):
    said = sonde("report", *more, status=2).stderr
    assert "there is no command report" in said
    assert "trace, snapshots, autopsy, tail" in said


# --- trace ----------------------------------------------------------------------------------------


def test_trace_of_the_references_spool():
    lines = sonde("trace", REFERENCE).stdout.splitlines()
    assert len(lines) == 16
    assert lines[:4] == [
        "cirron.session - 9.6ms {loose=2.5000}",
        "  epoch[0] - 4.4ms {epoch_loss=0.5234}",
        "    batch[0] - 1.1ms {loss=0.0909, step=10, ok=True, phase=wärmup}",
        "      augment - 1.1ms",
    ]
    assert lines[-1] == "thread_scope[3] - 29us {x=-1}"


def test_trace_of_one_file_and_of_the_folder_around(tmp_path):
    shutil.copytree(REFERENCE, tmp_path / ".cirron" / "spool")
    whole = sonde("trace", REFERENCE).stdout
    for place in (tmp_path, tmp_path / ".cirron", tmp_path / ".cirron" / "spool"):
        assert sonde("trace", place).stdout == whole
    one = min((tmp_path / ".cirron" / "spool").glob("*.json"))
    assert sonde("trace", one).stdout.count("batch[") == 3


def test_trace_filters():
    assert sonde("trace", REFERENCE, "--name", "batch", "--limit", "1").stdout.splitlines() == [
        "batch[0] - 1.1ms {loss=0.0909, step=10, ok=True, phase=wärmup}",
        "  augment - 1.1ms",
        "... 5 more batch - total 5.5ms, mean 1.1ms",
    ]
    assert sonde("trace", REFERENCE, "--last", "2").stdout.splitlines() == [
        "cirron.session - 9.6ms {loose=2.5000}",
        "thread_scope[3] - 29us {x=-1}",
    ]
    assert sonde("trace", REFERENCE, "--name", "epoch", "--last", "1").stdout.splitlines() == [
        "epoch[1] - 3.8ms {epoch_loss=0.5234}",
    ]


def test_trace_shows_attributes_when_asked():
    lines = sonde("trace", REFERENCE, "--attrs", "--limit", "1").stdout.splitlines()
    augment = next(line for line in lines if "augment" in line)
    attrs = json.loads(augment[augment.index("{") :])
    assert attrs["note"] == 'é "quoted" \n tab\t 🚀'
    assert "note" not in sonde("trace", REFERENCE).stdout
    sonde("trace", REFERENCE, "--attrs", "--summary", status=2)


@pytest.mark.parametrize("more", [[], ["--summary"]], ids=["tree", "summary"])
def test_trace_says_what_there_is_instead_of_a_name_or_rank(more):
    nope = sonde("trace", REFERENCE, "--name", "nope", *more)
    assert nope.stdout == "(no spans)\n"
    names = "augment, batch, cirron.session, epoch, thread_scope"
    assert nope.stderr == f"sonde: no span is called nope; there are: {names}\n"
    rank = sonde("trace", REFERENCE, "--rank", "7", *more)
    assert rank.stdout == "(no spans)\n"
    assert rank.stderr == "sonde: no span has rank 7; the ranks are: 0\n"
    # One reason is enough.
    both = sonde("trace", REFERENCE, "--rank", "7", "--name", "nope", *more)
    assert both.stderr == rank.stderr
    assert sonde("trace", REFERENCE, "--name", "epoch", *more).stderr == ""


def test_trace_lists_ten_names_of_many(tmp_path):
    run_python(
        """
        import sys, cirron as ci
        ci.profile(path=sys.argv[1], frameworks=[])
        for number in range(15):
            with ci.scope(f"name{number:02}"):
                pass
        """,
        tmp_path,
    )
    said = sonde("trace", tmp_path, "--name", "nope").stderr
    assert said.endswith("name00, name01, name02, name03, name04, name05, name06, name07, name08"
                         " and 6 more\n")  # fmt: skip


def test_trace_as_json():
    tree = json.loads(sonde("trace", REFERENCE, "--json").stdout)
    assert tree["span_count"] == 16
    session, thread = tree["roots"]
    assert (session["name"], thread["name"]) == ("cirron.session", "thread_scope")
    epoch = session["children"][0]
    assert epoch["marks"] == [{"name": "epoch_loss", "value": 0.5234, "kind": "summary"}]
    assert epoch["children"][0]["children"][0]["attrs"]["note"] == 'é "quoted" \n tab\t 🚀'


def test_trace_summary():
    header, session, epoch, *_ = sonde("trace", REFERENCE, "--summary").stdout.splitlines()
    assert header.split()[:3] == ["name", "count", "total"]
    assert session.split()[:3] == ["cirron.session", "1", "9.6ms"]
    assert epoch.split()[:3] == ["epoch", "2", "8.2ms"]
    summary = json.loads(sonde("trace", REFERENCE, "--summary", "--json").stdout)
    assert summary["spans"] == 16
    only = sonde("trace", REFERENCE, "--summary", "--name", "augment").stdout.splitlines()
    assert [line.split()[:2] for line in only[1:]] == [["augment", "6"]]
    sonde("trace", REFERENCE, "--summary", "--last", "1", status=2)


def test_trace_groups_ranks(tmp_path):
    for rank in (1, 0):
        run_python(
            """
            import sys, cirron as ci
            ci.profile(path=sys.argv[1], frameworks=[])
            with ci.scope("work"):
                pass
            """,
            tmp_path,
            env={"RANK": str(rank), "WORLD_SIZE": "2"},
        )
    lines = [line.split(" - ")[0] for line in sonde("trace", tmp_path).stdout.splitlines()]
    group = ["  cirron.session", "    work"]
    assert lines == ["rank 0", *group, "rank 1", *group]
    assert sonde("trace", tmp_path, "--rank", "1").stdout.startswith("cirron.session - ")
    assert sonde("trace", tmp_path, "--summary").stdout.count("rank ") == 2


ONE_RUN = """
    import os, sys, cirron as ci
    ci.profile(path=sys.argv[1], frameworks=[])
    with ci.scope(sys.argv[2]):
        ci.mark("loss", 0.5)
    print(os.getpid())
"""


@pytest.fixture
def three_runs(tmp_path):
    """A directory that three runs wrote into, and their pids."""
    runs = [run_python(ONE_RUN, tmp_path, f"work{number}") for number in (1, 2, 3)]
    return tmp_path, [int(run.stdout) for run in runs]


def test_trace_tells_runs_apart(three_runs):
    directory, pids = three_runs
    lines = sonde("trace", directory).stdout.splitlines()
    assert len(lines) == 9
    for number, pid in enumerate(pids, 1):
        heading, session, work = lines[3 * number - 3 : 3 * number]
        assert heading.startswith(f"run {number} of 3, of 20")
        assert heading.endswith(f" UTC, pid {pid}")
        assert session.startswith("  cirron.session - ")
        assert work.startswith(f"    work{number} - ")
    newest = sonde("trace", directory, "--last", "6").stdout.splitlines()
    assert [line for line in newest if line.startswith("run of ")] == [
        line.replace(f"run {number} of 3, of", "run of")
        for number, line in enumerate(lines[::3], 1)
    ]
    ids = {root["id"] for root in json.loads(sonde("trace", directory, "--json").stdout)["roots"]}
    assert len(ids) == 3


@pytest.mark.parametrize(("run", "number"), [("1", 1), ("2", 2), ("3", 3), ("last", 3)])
def test_trace_of_one_run(three_runs, run, number):
    directory, pids = three_runs
    session, work = sonde("trace", directory, "--run", run).stdout.splitlines()
    assert session.startswith("cirron.session - ")
    assert work.startswith(f"  work{number} - ") and work.endswith("{loss=0.5000}")
    tree = json.loads(sonde("trace", directory, "--run", run, "--json").stdout)
    assert [root["pid"] for root in tree["roots"]] == [pids[number - 1]]
    table = sonde("trace", directory, "--run", run, "--summary").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["name", "cirron.session", f"work{number}"]
    last = sonde("trace", directory, "--run", run, "--last", "1").stdout
    assert last.startswith("cirron.session - ")


def test_summary_says_that_it_adds_runs_up(three_runs):
    directory, _ = three_runs
    first, header, session, *_ = sonde("trace", directory, "--summary").stdout.splitlines()
    assert first.startswith("adds up 3 runs; ")
    assert header.split()[0] == "name"
    assert session.split()[:2] == ["cirron.session", "3"]
    assert json.loads(sonde("trace", directory, "--summary", "--json").stdout)["spans"] == 6
    assert "adds up" not in sonde("trace", REFERENCE, "--summary").stdout


@pytest.mark.parametrize("more", [[], ["--summary"]], ids=["tree", "summary"])
def test_trace_of_a_run_that_is_not_there(three_runs, more):
    directory, _ = three_runs
    done = sonde("trace", directory, "--run", "4", *more)
    assert done.stdout == "(no spans)\n"
    assert "there is no run 4" in done.stderr and "holds runs 1 to 3" in done.stderr
    for wrong in ("0", "-1", "first", "1.5", "+1", "1x", "0x1", "99999999999999999999"):
        assert "--run" in sonde("trace", directory, "--run", wrong, *more, status=2).stderr


def test_the_message_says_what_a_run_is_called():
    assert (
        '"+1" is not a run; give a number from 1 on, or last'
        in sonde("trace", REFERENCE, "--run", "+1", status=2).stderr
    )


def test_a_scope_called_session_is_no_run(tmp_path):
    code = """
        import sys, cirron as ci
        with ci.scope("http.session"):
            pass
        ci.profile(path=sys.argv[1], frameworks=[])
        with ci.scope("work"):
            pass
    """
    run_python(code, tmp_path)
    assert "http.session" in sonde("trace", tmp_path).stdout
    assert "adds up" not in sonde("trace", tmp_path, "--summary").stdout
    assert "holds only run 1;" in sonde("trace", tmp_path, "--run", "9").stderr


def test_ranks_that_run_together_are_one_run(tmp_path):
    code = """
        import sys, cirron as ci
        ci.profile(path=sys.argv[1], frameworks=[])
        print("ready", flush=True)
        sys.stdin.readline()
    """
    for _ in range(2):
        both = [RunningPython(code, tmp_path, env={"RANK": str(rank)}) for rank in (0, 1)]
        with both[0], both[1]:
            for run in both:
                run.wait_for()
            for run in both:
                run.finish("go\n")
    text = sonde("trace", tmp_path).stdout
    assert text.count("run 1 of 2, ") == text.count("run 2 of 2, ") == 2
    assert sonde("trace", tmp_path, "--summary").stdout.startswith("adds up 2 runs; ")
    lines = sonde("trace", tmp_path, "--run", "last").stdout.splitlines()
    assert [line.split(" - ")[0] for line in lines] == [
        "rank 0", "  cirron.session", "rank 1", "  cirron.session",
    ]  # fmt: skip


def test_trace_skips_what_it_cannot_read(tmp_path):
    shutil.copytree(REFERENCE, tmp_path / "spool")
    (tmp_path / "spool" / "0.json").write_text('{"schema_version": 1, "spans": [')
    (tmp_path / "spool" / "1.json").write_text('{"schema_version": 99, "spans": []}')
    (tmp_path / "spool" / "2.json").write_bytes(b"\xff\x00")
    done = sonde("trace", tmp_path)
    assert len(done.stdout.splitlines()) == 16
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert "0.json" in lines[0] and "2.json" in lines[2]
    assert "1.json" in lines[1] and "read it with a newer version of sonde" in lines[1]
    assert "3 of 6 files could not be read" in lines[3]


def test_trace_fails_where_there_is_nothing(tmp_path):
    missing = sonde("trace", tmp_path / "nothing", status=1)
    assert "name the output directory" in missing.stderr
    empty = sonde("trace", tmp_path, status=1)
    assert "name the output directory" in empty.stderr
    (tmp_path / "only.json").write_text("garbage")
    sonde("trace", tmp_path, status=1)


def test_trace_of_a_running_process_shows_what_is_open(tmp_path):
    with RunningPython(CHILD, tmp_path, 3600) as run:
        run.wait_for()
        lines = [line.split(" {")[0] for line in sonde("trace", tmp_path).stdout.splitlines()]
        assert re.fullmatch(r"cirron\.session - running, \S+s", lines[0])
        running = [line.split(" - running, ")[0] for line in lines if " - running, " in line]
        assert sorted(running) == ["    forward", "  epoch[1]", "  loader", "cirron.session"]
        assert sum(line.startswith("    batch[") for line in lines) == 6
        summary = sonde("trace", tmp_path, "--summary").stdout
        assert "open" in summary.splitlines()[0]
        assert sonde("trace", tmp_path, "--last", "1").stdout.count("\n") == 1
