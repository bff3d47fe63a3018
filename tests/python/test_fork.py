"""Forks: the child starts without anything of its parent, and neither waits for the other."""

import json
import os
from pathlib import Path

import pytest
from child_process import run_python
from spool_files import Spool

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_child_owns_nothing_of_the_parent(tmp_path):
    done = run_python(
        """
        import json, os, sys
        import cirron as ci
        handle = ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("parent's, closed"):
            ci.mark("m", 1)
        with ci.scope("parent's, open"):
            pid = os.fork()
            if pid == 0:
                report = {
                    "health": ci.health()["enabled"],
                    "handle": handle.health()["enabled"],
                    "mode": handle.health()["flush_mode"],
                    "spans": ci.trace(format="dict")["span_count"],
                    "config": dict(ci.config),
                }
                with ci.scope("child's") as span:
                    report["pid"] = span.pid == os.getpid()
                    report["parent_id"] = span.parent_id
                ci.flush()
                handle.shutdown()
                ci.shutdown()
                print(json.dumps(report), flush=True)
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """,
        tmp_path / "out",
    )
    assert json.loads(done.stdout) == {
        "health": False,
        "handle": False,
        "mode": "stopped",
        "spans": 0,
        "config": {},
        "pid": True,
        "parent_id": None,
    }
    spool = Spool(tmp_path / "out/spool")
    assert sorted(spool.names()) == ["cirron.session", "parent's, closed", "parent's, open"]
    assert len({span["pid"] for span in spool.spans}) == 1


def test_scopes_open_at_the_fork_may_be_closed_in_the_child(tmp_path):
    run_python(
        """
        import os, sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        pid = None
        with ci.scope("outer"):
            for epoch in ci.epochs(range(2)):
                if pid is None:
                    pid = os.fork()
                with ci.scope("inner"):
                    ci.mark("m", epoch)
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
        """,
        tmp_path / "out",
    )
    spool = Spool(tmp_path / "out/spool")
    assert sorted(spool.names()) == ["cirron.session", "epoch", "epoch", "inner", "inner", "outer"]


def test_child_may_profile_on_its_own(tmp_path):
    run_python(
        """
        import os, sys
        import cirron as ci
        ci.profile(path=sys.argv[1] + "/parent", flush_interval=3600)
        with ci.scope("parent"):
            pid = os.fork()
            if pid == 0:
                os.environ["RANK"] = "1"
                assert ci.profile(path=sys.argv[1] + "/child").enabled
                with ci.scope("child"):
                    ci.mark("m", 1)
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """,
        tmp_path,
    )
    parent, child = Spool(tmp_path / "parent/spool"), Spool(tmp_path / "child/spool")
    assert sorted(parent.names()) == ["cirron.session", "parent"]
    assert sorted(child.names()) == ["child", "cirron.session"]
    assert child.path(child.one("child")) == ["cirron.session", "child"]
    assert {span["rank"] for span in child.spans} == {1}
    assert not {span["pid"] for span in parent.spans} & {span["pid"] for span in child.spans}
    assert not parent.by_id.keys() & child.by_id.keys()


def test_parent_and_children_in_one_directory(tmp_path):
    run_python(
        """
        import os, sys
        import cirron as ci
        pids = []
        for number in range(4):
            pid = os.fork()
            if pid == 0:
                ci.profile(path=sys.argv[1], flush_interval=0.005)
                for step in range(200):
                    with ci.scope("step", index=step):
                        pass
                sys.exit(0)
            pids.append(pid)
        ci.profile(path=sys.argv[1], flush_interval=0.005)
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == 0
        """,
        tmp_path / "out",
    )
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("step")) == 800
    assert len(spool.named("cirron.session")) == 5


def test_disabled_stays_disabled_in_the_child():
    run_python(
        """
        import os, sys
        import cirron as ci
        ci.profile(enabled=False, config={"flag": 1})
        pid = os.fork()
        if pid == 0:
            with ci.scope("x"):
                pass
            assert ci.trace(format="dict")["span_count"] == 0
            assert ci.config["flag"] == 1
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_child_writes_at_its_end(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "import cirron as ci\n"
        "def work(number, directory):\n"
        "    ci.profile(path=directory, flush_interval=3600)\n"
        "    scope = ci.scope('left open')\n"
        "    scope.__enter__()\n"
        "    with ci.scope('work', index=number):\n"
        "        ci.mark('m', number)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[2])\n"
        "    if sys.argv[2] == 'fork':\n"
        "        ci.profile(path=sys.argv[1], flush_interval=3600)\n"
        "    children = [context.Process(target=work, args=(n, sys.argv[1])) for n in range(2)]\n"
        "    for child in children: child.start()\n"
        "    for child in children: child.join(30)\n"
        "    assert [child.exitcode for child in children] == [0, 0]\n"
    )
    run_python(
        "import runpy, sys; path = sys.argv.pop(1); runpy.run_path(path, run_name='__main__')",
        program,
        tmp_path / "out",
        method,
    ) if method == "fork" else run_file(program, tmp_path / "out", method)
    spool = Spool(tmp_path / "out/spool")
    assert sorted(span["index"] for span in spool.named("work")) == [0, 1]
    assert len(spool.named("left open")) == 2
    assert len(spool.named("cirron.session")) == (3 if method == "fork" else 2)
    live = tmp_path / "out/live"
    assert not live.exists() or list(live.iterdir()) == []


def run_file(program, *args):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, program, *map(str, args)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_multiprocessing_pool(tmp_path):
    run_python(
        """
        import multiprocessing, sys
        import cirron as ci
        def work(number):
            with ci.scope("work", index=number):
                return number * 2
        ci.profile(path=sys.argv[1], flush_interval=0.01)
        with ci.scope("map"), multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(work, range(50)) == [n * 2 for n in range(50)]
        """,
        tmp_path / "out",
    )
    spool = Spool(tmp_path / "out/spool")
    assert sorted(spool.names()) == ["cirron.session", "map"]


FORK_WHILE_BUSY = """
    import os, signal, sys, threading, time
    import cirron as ci
    ci.profile(path=sys.argv[1], flush_interval=0.001{output})
    stop = False
    count = [0] * 3
    def work(number):
        while not stop:
            with ci.scope("x", a=number):
                ci.mark("m", 1)
            count[number] += 1
            time.sleep(0.0001)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads: thread.start()
    for number in range(60):
        if number % 4 == 0:
            ci.flush()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            with ci.scope("in the child"):
                ci.mark("m", 2)
            if number % 3 == 0:
                ci.profile(path=sys.argv[1] + "/child", flush_interval=0.001)
                with ci.scope("of the child"):
                    pass
                ci.flush()
                ci.shutdown()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, number
    stop = True
    for thread in threads: thread.join()
    print(sum(count), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "output", ["", ', output=["spool", "log", "stdout"]'], ids=["spool", "all"]
)
def test_fork_while_threads_record_and_the_drain_thread_writes(tmp_path, output):
    done = run_python(FORK_WHILE_BUSY.format(output=output), tmp_path / "out", timeout=90)
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("x")) == int(done.stderr.split()[-1])
    assert "in the child" not in spool.names()
    child = Spool(tmp_path / "out/child/spool")
    assert len(child.named("of the child")) == 20
    assert len(child.named("cirron.session")) == 20


def test_sigterm_to_a_child_writes_nothing_of_the_parent(tmp_path):
    run_python(
        """
        import os, signal, sys, time
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        for number in range(100):
            with ci.scope("x", index=number):
                pass
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, b"1")
            time.sleep(30)
            os._exit(1)
        os.read(read, 1)
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM, status
        """,
        tmp_path / "out",
    )
    assert len(Spool(tmp_path / "out/spool").named("x")) == 100


def test_subprocess_of_a_profiled_process(tmp_path):
    run_python(
        """
        import subprocess, sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=0.001)
        for _ in range(20):
            with ci.scope("run"):
                subprocess.run(["true"], check=True)
        """,
        tmp_path / "out",
    )
    spool = Spool(tmp_path / "out/spool")
    assert len(spool.named("run")) == 20


def test_in_process_fork_of_the_test_itself():
    """The process that runs these tests has had many sessions; its fork starts clean too."""
    import cirron as ci

    ci.profile(output="none")
    with ci.scope("x"):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if ci.trace(format="dict")["span_count"] == 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0


IN_A_FORKED_CHILD = """
    import json, os, sys
    import cirron as ci

    ci.profile(path=sys.argv[1])
    with ci.scope("of the parent"):
        pass
    import torch
    from torch.utils.data import DataLoader
    from trees import sketch

    def train(batches=None):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in batches or [torch.ones(2, 4)] * 3:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    if sys.argv[2] == "trained":
        train()
    pid = os.fork()
    if pid == 0:
        ci.profile(path=sys.argv[1])
        train(DataLoader(torch.ones(6, 4), batch_size=2))
        found = sketch()
        ci.shutdown()
        print(json.dumps(found), flush=True)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    train()
"""


@pytest.mark.parametrize("parent", ["idle", "trained"])
def test_child_of_a_training_program_has_its_own_hooks(tmp_path, parent):
    """The hooks of its parent must be gone, or everything would be recorded twice."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = run_python(
        IN_A_FORKED_CHILD,
        tmp_path / "out",
        parent,
        env={"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
    )
    parts = "data_load forward backward optimizer_step"
    steps = " ".join(f"step[{n}]({parts})" for n in range(3))
    assert json.loads(done.stdout.splitlines()[-1]) == f"epoch[0]({steps})"
    assert "could not be taken away" not in done.stderr


def test_child_does_not_say_what_its_parent_skipped(tmp_path):
    done = run_python(
        """
        import os, sys
        import cirron as ci

        ci.profile(path=sys.argv[1])
        import torch

        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for _ in range(3):
            scaler.scale(model(torch.full((2, 4), float("inf"))).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        pid = os.fork()
        ci.profile(path=sys.argv[1]) if pid == 0 else os.waitpid(pid, 0)
        """,
        tmp_path / "out",
        env={"OMP_NUM_THREADS": "1"},
    )
    assert done.stderr.count("mixed precision skipped 3 of 3") == 1, done.stderr
