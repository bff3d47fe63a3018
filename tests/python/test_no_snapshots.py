"""If there are no snapshots, `sonde snapshots` and the log give the true reason."""

import signal
import textwrap

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from cli_runs import REFERENCE
from sonde_command import sonde

torch = pytest.importorskip("torch")

TRAIN = """
    import logging, sys, torch
    import cirron as ci

    logging.basicConfig(level=logging.INFO)
    profile = dict(path=sys.argv[1])
    model = torch.nn.Linear(2, 1)
    data = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def epoch(steps=True):
        for x in data:
            loss = model(x).sum()
            if steps:
                loss.backward()
                optimizer.step()
"""


def program(body):
    return textwrap.dedent(TRAIN) + textwrap.dedent(body)


def why(directory, *args):
    done = sonde("snapshots", directory, *args)
    assert done.stdout == "(no snapshots)\n"
    return done.stderr.removeprefix("sonde: ").rstrip("\n")


def run(directory, body):
    """The reason that the run logged, and the reason that the command prints."""
    errors = run_python(program(body), directory).stderr
    logged = [line for line in errors.splitlines() if "no snapshots: " in line]
    assert all("[cirron] no snapshots: " in line for line in logged)
    return [line.partition("no snapshots: ")[2] for line in logged], why(directory)


def test_switched_off(tmp_path):
    logged, said = run(tmp_path, 'ci.profile(**profile, snapshots="off"); epoch()')
    assert logged == []
    assert said.startswith("nothing was captured: snapshots were switched off, in the call that")


def test_no_epoch_has_ended(tmp_path):
    _, said = run(tmp_path, "ci.profile(**profile, frameworks=[])\nepoch()")
    assert said.startswith("nothing was captured: no epoch has ended; ")
    assert said.endswith("profile(frameworks=...) leaves out torch, which the program uses")


def test_a_program_without_training_is_not_told(tmp_path):
    logged, said = run(tmp_path, 'ci.profile(**profile)\nwith ci.scope("x"): pass')
    assert logged == []
    assert said == "nothing was captured: no epoch has ended; no hook saw a model being trained"


def test_a_crash_before_training_is_not_told_to_write_its_loop(tmp_path):
    body = 'ci.profile(**profile)\nmodel(torch.ones(2))\nraise SystemExit("no data")'
    run_python(program(body), tmp_path, check=False)
    assert "ci.epochs" not in why(tmp_path)


def test_where_no_hook_looks_the_loop_is_what_to_write(tmp_path):
    _, said = run(tmp_path, "ci.profile(**profile, frameworks=[])\nepoch()")
    assert "write the loop over epochs as: for epoch in ci.epochs(...)" in said


def test_no_optimizer_has_stepped(tmp_path):
    body = """
        ci.profile(**profile)
        with torch.no_grad():
            for _ in ci.epochs(range(2)): model.eval()(torch.ones(2))
    """
    logged, said = run(tmp_path, body)
    assert logged[0].startswith("no optimizer has stepped")
    assert said == f"nothing was captured: {logged[0]}"


def test_no_model_is_known(tmp_path):
    body = "ci.profile(**profile)\nfor _ in ci.epochs(range(2)): pass"
    logged, said = run(tmp_path, body)
    assert logged == ["no model of torch or Keras is known; call ci.watch(model)"]
    assert said == f"nothing was captured: {logged[0]}"


def test_hooks_that_were_left_out(tmp_path):
    body = "ci.profile(**profile, frameworks=[])\nfor _ in ci.epochs(range(2)): epoch()"
    logged, said = run(tmp_path, body)
    assert logged[0].endswith("profile(frameworks=...) leaves out torch, which the program uses")
    assert said == f"nothing was captured: {logged[0]}"


def test_a_hook_that_is_off(tmp_path):
    body = """
        del torch.autograd.backward  # what the hook looks for
        ci.profile(**profile, frameworks=["torch"])
        for _ in ci.epochs(range(2)): pass
    """
    logged, said = run(tmp_path, body)
    assert "the torch hook is off (AttributeError" in logged[0]
    assert said == f"nothing was captured: {logged[0]}"


def test_a_model_that_raises(tmp_path):
    body = """
        class Odd(torch.nn.Linear):
            def named_parameters(self, *args, **kwargs):
                raise RuntimeError('not "now"')
        model = Odd(2, 1)
        optimizer = torch.optim.SGD([model.weight], lr=0.1)
        ci.profile(**profile)
        ci.watch(model)
        for _ in range(2): epoch()
    """
    _, said = run(tmp_path, body)
    assert said.removeprefix("nothing was captured: ") in (
        "the model raises when it is asked for its tensors",
        "taking one failed (RuntimeError: not 'now')",
    )


def test_records_that_were_taken_and_are_gone(tmp_path):
    run_python(program("ci.profile(**profile)\nepoch()\nci.flush()"), tmp_path)
    assert "weight" in sonde("snapshots", tmp_path).stdout
    for file in (tmp_path / "spool").iterdir():
        if '"tensor_name"' in file.read_text():
            file.write_text(file.read_text().partition('"snapshots":[')[0] + '"snapshots":[]}')
    assert why(tmp_path).startswith("nothing was captured: 4 records were taken and none of them")


RUNNING = """
    ci.profile(**profile, flush_interval=0.02)
    for turn in ci.epochs(range(2)):
        print("ready", flush=True)
        sys.stdin.readline()
"""


def test_a_run_in_its_first_epoch(tmp_path):
    with RunningPython(program(RUNNING), tmp_path) as child:
        child.wait_for()
        said = why(tmp_path)
        child.signal(signal.SIGKILL)
        child.process.wait()
    assert "the run has been in its first epoch for " in said
    assert "taken at the end of that epoch" in said
    # Before and after recovery.
    for _ in range(2):
        assert "the process died before its first epoch had ended" in why(tmp_path)
        sonde("autopsy", tmp_path)


def test_a_run_that_goes_on_says_why_so_far(tmp_path):
    with RunningPython(program(RUNNING), tmp_path) as child:
        child.wait_for()
        child.process.stdin.write("go\n")
        child.process.stdin.flush()
        child.wait_for()
        said = why(tmp_path)
        child.signal(signal.SIGKILL)
        child.process.wait()
    assert said == "nothing was captured: no model of torch or Keras is known; call ci.watch(model)"
    sonde("autopsy", tmp_path)
    assert why(tmp_path) == said


def test_before_the_first_epoch(tmp_path):
    body = 'ci.profile(**profile)\nprint("ready", flush=True)\nsys.stdin.readline()'
    with RunningPython(program(body), tmp_path) as child:
        child.wait_for()
        assert "no epoch has begun yet" in why(tmp_path)


def test_a_spool_of_the_reference():
    assert "by another SDK, which captures only what it is told to watch" in why(REFERENCE)


def test_several_runs_each_with_its_reason(tmp_path):
    run(tmp_path, 'ci.profile(**profile, snapshots="off"); epoch()')
    run_python(program("ci.profile(**profile)\nfor _ in ci.epochs(range(1)): pass"), tmp_path)
    first, second = sorted(why(tmp_path).replace("sonde: ", "").splitlines())
    assert first.startswith("nothing was captured of run 1 rank 0: snapshots were switched off")
    assert second.startswith(
        "nothing was captured of run 2 rank 0: no model of torch or Keras is known"
    )
    assert "no model of torch or Keras is known" in why(tmp_path, "--run", "last")


def test_the_session_says_how_they_are_set(memory):
    (session,) = ci.trace(format="dict")["roots"]
    assert session["attrs"]["snapshots"] == "stats"
