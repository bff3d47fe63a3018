"""Processes of one program are one run; a child that records nothing leaves nothing."""

import os
import re
import subprocess
import sys

import pytest
from child_process import TIMEOUT_S
from run_programs import (
    AT_MODULE_LEVEL,
    IN_THE_CHILD,
    METHODS,
    START_THREE,
    children,
    run_ids,
)
from sonde_command import sonde


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_profile_of_the_main_program_runs_again_in_its_children(program, method):
    program.write(AT_MODULE_LEVEL, START_THREE).run(method)
    assert program.run_count() == 1
    assert program.journals() == []
    sessions = program.sessions()
    assert len(sessions) == 4
    assert len(run_ids(sessions)) == 1
    assert len({session["pid"] for session in sessions}) == 4
    assert len(children(sessions)) == 3
    assert sorted(span["index"] for span in program.spool().named("work")) == [0, 1, 2]


@pytest.mark.parametrize("method", METHODS)
def test_only_the_children_call_profile(program, method):
    program.write(IN_THE_CHILD, START_THREE).run(method)
    assert program.run_count() == 1
    assert program.journals() == []
    sessions = program.sessions()
    assert len(sessions) == len(children(sessions)) == 3
    assert len(run_ids(sessions)) == 1


def test_main_program_and_forked_children_call_profile(program):
    program.write(
        IN_THE_CHILD,
        """
        if __name__ == "__main__":
            ci.profile(path=sys.argv[1])
        """,
        START_THREE,
    ).run("fork")
    assert program.run_count() == 1
    assert len(program.sessions()) == 4
    assert len(run_ids(program.sessions())) == 1


def test_forks_without_multiprocessing(program):
    program.write(
        """
        import os, sys
        import cirron as ci

        ci.profile(path=sys.argv[1])
        for number in range(3):
            pid = os.fork()
            if pid == 0:
                ci.profile(path=sys.argv[1])
                if number < 2:
                    with ci.scope("work", index=number):
                        pass
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        assert "multiprocessing" not in sys.modules
        """
    ).run()
    assert program.run_count() == 1
    sessions = program.sessions()
    assert len(sessions) == 3, "the child that recorded nothing left nothing"
    names = [session["attrs"]["sonde.process"] for session in children(sessions)]
    (main,) = [session for session in sessions if "sonde.process" not in session["attrs"]]
    assert names == [f"fork of {main['pid']}"] * 2


def test_children_of_children(program):
    program.write(
        AT_MODULE_LEVEL,
        """
        def middle(number):  # records nothing itself
            child = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(number,))
            child.start()
            child.join()
            assert child.exitcode == 0

        if __name__ == "__main__":
            child = multiprocessing.get_context(sys.argv[2]).Process(target=middle, args=(7,))
            child.start()
            child.join()
            assert child.exitcode == 0
        """,
    ).run("spawn")
    assert program.run_count() == 1
    assert len(program.sessions()) == 2
    assert program.spool().one("work")["index"] == 7


def test_two_sessions_of_the_main_program_are_two_runs_with_their_children(program):
    program.write(
        """
        import multiprocessing, sys
        import cirron as ci

        def work(number):
            ci.profile(path=sys.argv[1])
            with ci.scope("work", index=number):
                pass

        if __name__ == "__main__":
            for number in range(2):
                ci.profile(path=sys.argv[1])
                child = multiprocessing.get_context("spawn").Process(target=work, args=(number,))
                child.start()
                child.join()
                ci.shutdown()
        """
    ).run()
    assert program.run_count() == 2
    assert len(program.sessions()) == 4
    for run in (1, 2):
        text = sonde("trace", program.out, "--run", run).stdout
        assert text.count("cirron.session") == 2
        assert f"work[{run - 1}]" in text


def test_the_tree_says_which_session_is_whose(program):
    program.write(AT_MODULE_LEVEL, START_THREE).run("spawn")
    lines = sonde("trace", program.out).stdout.splitlines()
    named = [line for line in lines if line.startswith("cirron.session")]
    assert [" (SpawnProcess-" in line for line in named] == [False, True, True, True]
    pids = {session["pid"] for session in children(program.sessions())}
    assert {int(re.search(r", pid (\d+)\)", line)[1]) for line in named[1:]} == pids


@pytest.mark.parametrize("end", ["return", "exit", "kill", "terminate"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_that_records_nothing_leaves_nothing(program, method, end):
    program.write(
        AT_MODULE_LEVEL,
        """
        def idle(ready, end):
            ready.set()
            if end == "exit":
                os._exit(0)
            if end in ("kill", "terminate"):
                time.sleep(60)

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[2])
            ready = context.Event()
            child = context.Process(target=idle, args=(ready, sys.argv[3]))
            child.start()
            ready.wait()
            live = os.listdir(sys.argv[1] + "/live")
            assert len(live) == 1, live
            if sys.argv[3] in ("kill", "terminate"):
                getattr(child, sys.argv[3])()
            child.join()
            expected = {"kill": -signal.SIGKILL, "terminate": -signal.SIGTERM}
            assert child.exitcode == expected.get(sys.argv[3], 0), child.exitcode
        """,
    ).run(method, end)
    assert program.journals() == []
    assert program.run_count() == 1, "that of the main program, which recorded nothing either"
    assert len(program.spool().spans) == 1
    assert sorted(path.name for path in program.out.iterdir()) == ["live", "spool"]


def test_children_of_a_program_without_a_session_leave_not_even_a_folder(program):
    program.write(
        """
        import multiprocessing, sys
        import cirron as ci

        def idle():
            ci.profile(path=sys.argv[1])

        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                child = multiprocessing.get_context(method).Process(target=idle)
                child.start()
                child.join()
                assert child.exitcode == 0
        """
    ).run()
    assert not program.out.exists()


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_child_keeps_what_it_recorded(program, method):
    source = IN_THE_CHILD if method == "fork" else AT_MODULE_LEVEL
    program.write(
        source.replace("pass\n", "os.kill(os.getpid(), signal.SIGKILL)\n"),
        """
        if __name__ == "__main__":
            if sys.argv[2] == "fork":
                ci.profile(path=sys.argv[1])
            child = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(5,))
            child.start()
            child.join()
            assert child.exitcode == -signal.SIGKILL
        """,
    ).run(method)
    assert len(program.journals()) == 1
    assert "work[5]" in sonde("trace", program.out, "--run", "last").stdout
    assert program.run_count() == 1
    sonde("autopsy", program.out)
    assert program.journals() == []
    assert program.run_count() == 1
    assert program.spool().one("work")["attrs"] == {"sonde.closed_by": "death"}


def test_another_program_is_another_run(program):
    program.write(
        """
        import sys
        import cirron as ci

        ci.profile(path=sys.argv[1])
        with ci.scope("evaluate"):
            pass
        """,
        name="evaluate.py",
    )
    program.write(
        AT_MODULE_LEVEL,
        """
        if __name__ == "__main__":
            import subprocess
            assert os.environ["SONDE_RUN"]
            for _ in range(2):
                subprocess.run([sys.executable, "evaluate.py", sys.argv[1]], check=True)
            work(1)
        """,
    ).run()
    assert program.run_count() == 3
    assert len(run_ids(program.sessions())) == 3


def test_children_of_another_program_are_its_own(program):
    program.write(IN_THE_CHILD, START_THREE, name="other.py")
    program.write(
        AT_MODULE_LEVEL,
        """
        if __name__ == "__main__":
            import subprocess
            subprocess.run([sys.executable, "other.py", sys.argv[1], "spawn"], check=True)
        """,
    ).run()
    assert program.run_count() == 2
    assert len(program.sessions()) == 4


def test_two_programs_at_the_same_time_are_two_runs(program):
    program.write(
        AT_MODULE_LEVEL,
        """
        if __name__ == "__main__":
            print("ready")
            sys.stdin.read()
            child = multiprocessing.get_context("spawn").Process(target=work, args=(1,))
            child.start()
            child.join()
        """,
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-u", program.folder / "program.py", program.out],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
    assert program.run_count() == 2
    for run in (1, 2):
        assert sonde("trace", program.out, "--run", run).stdout.count("work[1]") == 1


def test_ranks_of_two_launchers_at_the_same_time(program):
    program.write(
        """
        import os, sys
        import cirron as ci

        ci.profile(path=sys.argv[1])
        with ci.scope("job " + os.environ["MASTER_PORT"]):
            print("ready")
            sys.stdin.read()
        """
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-u", program.folder / "program.py", program.out],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"RANK": rank, "WORLD_SIZE": "2", "MASTER_PORT": port},
        )
        for rank, port in [("0", "29500"), ("1", "29501"), ("0", "29501"), ("1", "29500")]
    ]
    for process in ranks:
        assert process.stdout.readline() == "ready\n"
    for process in ranks:
        process.communicate(timeout=TIMEOUT_S)
    assert program.run_count() == 2
    for run in (1, 2):
        text = sonde("trace", program.out, "--run", run).stdout
        assert len(set(re.findall(r"job \d+", text))) == 1
        assert "rank 0" in text and "rank 1" in text


def test_a_server_that_forks_has_called_profile_for_its_children(program):
    """Every program with the start method "forkserver" does so from Python 3.14 on."""
    program.write("import sys", AT_MODULE_LEVEL, name="training.py")
    program.write(
        """
        import multiprocessing, os, sys

        if __name__ == "__main__":
            multiprocessing.set_forkserver_preload(["training"])
            context = multiprocessing.get_context("forkserver")
            import training
            calls = [(training.work, (1,)), (training.work, (2,)), (os.getpid, ())]
            children = [context.Process(target=call, args=args) for call, args in calls]
            for child in children: child.start()
            for child in children: child.join()
            assert [child.exitcode for child in children] == [0, 0, 0]
        """
    )
    # The server is not given the arguments of the program.
    source = (program.folder / "training.py").read_text()
    (program.folder / "training.py").write_text(
        source.replace("sys.argv[1]", repr(str(program.out)))
    )
    program.run(env={"PYTHONPATH": str(program.folder)})
    assert program.run_count() == 1
    assert program.journals() == []
    assert len(children(program.sessions())) == 2
    assert sorted(span["index"] for span in program.spool().named("work")) == [1, 2]


def test_a_forked_pool_records_where_it_calls_profile(program):
    program.write(
        """
        import multiprocessing, sys
        import cirron as ci

        def begin():
            ci.profile(path=sys.argv[1])

        def work(number):
            with ci.scope("work", index=number):
                return number

        if __name__ == "__main__":
            ci.profile(path=sys.argv[1])
            with multiprocessing.get_context("fork").Pool(2, initializer=begin) as pool:
                assert pool.map(work, range(20)) == list(range(20))
                pool.close()
                pool.join()
        """
    ).run()
    assert program.run_count() == 1
    assert sorted(span["index"] for span in program.spool().named("work")) == list(range(20))
