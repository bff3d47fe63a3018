"""Small programs as people write them, each with its tree, its snapshots and its messages."""

import re

import pytest
from case_runs import (
    CASES,
    class_of,
    count,
    exception_of,
    is_skipped,
    named,
    run_case,
    run_ranks,
)
from sonde_command import sonde

torch = pytest.importorskip("torch")

LINEAR = {"weight", "bias"}


# -- what most of them have in common --


def check_levels(run, steps):
    """Epochs 0, 1, ... with steps 0, 1, ...; `steps`: how many in each epoch."""
    epochs = run.epochs()
    assert [epoch["index"] for epoch in epochs] == list(range(len(steps)))
    assert [below(epoch, "step") for epoch in epochs] == steps
    for epoch in epochs:
        assert [step["index"] for step in named(epoch, "step")] == list(range(count(epoch, "step")))
    assert count(run.session, "step") == sum(steps), "a step outside every epoch"
    check_times(run.session)


def below(node, name):
    """Spans of that name below a node. No step may be inside another or inside a validation."""
    assert all(count(each, "step") == 0 for each in named(node, "validation") + named(node, "step"))
    return count(node, name)


def check_times(node):
    """Children lie inside their parents and begin in order."""
    before = node["start_ns"]
    for child in node["children"]:
        assert before <= child["start_ns"] <= child["end_ns"] <= node["end_ns"]
        before = child["start_ns"]
        check_times(child)


def check_parts(run, **parts):
    """Every step has so many spans of these names."""
    for name, number in parts.items():
        assert {count(step, name) for step in run.named("step")} == {number}, name
        assert count(run.session, name) == number * count(run.session, "step"), (
            f"a {name} outside every step"
        )


def check_snapshots(run, weights, epochs, gradients=True):
    """Every epoch has these tensors, each with its gradient, and with statistics."""
    found = run.snapshots()
    names = set(weights) | {f"{name}.grad" for name in weights if gradients}
    for tensors in found:
        if not gradients:
            tensors = {name: tensors[name] for name in tensors if not name.endswith(".grad")}
        assert set(tensors) == names
        for record in tensors.values():
            assert sum(record["stats"]["histogram"]["counts"]) > 0
    assert len(found) == epochs


def check_taken_after_the_last_update(run):
    for epoch, tensors in zip(run.epochs(), run.snapshots(), strict=True):
        last = named(epoch, "optimizer_step")[-1]
        times = {record["ts_ns"] for name, record in tensors.items() if not name.endswith(".grad")}
        assert min(times) >= last["end_ns"]


def check_ordinary(run, steps, weights=LINEAR):
    """Epochs of plain steps, all in one run, nothing else: no validation, no exception."""
    check_levels(run, steps)
    check_parts(run, backward=1, optimizer_step=1)
    check_snapshots(run, weights, len(steps))
    check_taken_after_the_last_update(run)
    assert run.named("validation") == []
    assert run.runs() == 1
    assert all(exception_of(span) is None for span in run.spool.spans)
    assert not any(is_skipped(step) for step in run.named("step"))


def check_validations(run, places, forwards):
    """`places`: for each validation the index of its epoch; None: it is beside the epochs."""
    found = []
    for validation in run.named("validation"):
        around = [epoch["index"] for epoch in run.epochs() if inside(validation, epoch)]
        found.append(around[0] if around else None)
        assert validation["index"] is None
        assert count(validation, "forward") == count(validation, "data_load") == forwards
        assert count(validation, "backward") == count(validation, "optimizer_step") == 0
    assert found == places


def inside(span, ancestor):
    return any(each["id"] == span["id"] for each in named(ancestor, span["name"]))


# -- with a loader --


def test_validation_iterator_kept(tmp_path):
    run = run_case(tmp_path / "run", "validation_iterator_kept")
    check_levels(run, [10, 10, 10, 10])
    check_validations(run, [0, 0, 1, 1, 2, 2, 3, 3], forwards=1)
    for epoch in run.epochs():
        steps = [step["start_ns"] for step in named(epoch, "step")]
        looks = [look["start_ns"] for look in named(epoch, "validation")]
        # After the first and after the sixth of ten steps.
        assert [sum(step < look for step in steps) for look in looks] == [1, 6]
    assert count(run.session, "forward") == 40 + 8
    assert count(run.session, "backward") == count(run.session, "optimizer_step") == 40
    check_snapshots(run, LINEAR, epochs=4)
    check_taken_after_the_last_update(run)


def test_no_grad_without_eval(tmp_path):
    run = run_case(tmp_path / "run", "no_grad_without_eval")
    check_levels(run, [4, 4])
    check_validations(run, [None, None], forwards=2)
    order = [span["name"] for span in run.session["children"]]
    assert order == ["epoch", "validation", "epoch", "validation"]
    check_snapshots(run, LINEAR, epochs=2)


def test_prefetching_loader(tmp_path):
    weights = "[m.weight.double().norm().item(), m.bias.double().norm().item()]"
    run = run_case(tmp_path / "run", "prefetching_loader", then=weights)
    check_ordinary(run, [4, 4])
    check_parts(run, forward=1)
    assert [count(epoch, "data_load") for epoch in run.epochs()] == [4, 4]
    last = run.snapshots()[-1]
    norms = [last[name]["stats"]["norm"] for name in ("weight", "bias")]
    assert norms == pytest.approx(run.then(), rel=1e-6)


def test_spawn_workers(tmp_path):
    run = run_case(tmp_path / "run", "spawn_workers")
    assert run.runs() == 1
    assert len({span["pid"] for span in run.spool.spans}) == 1
    assert len(run.roots) == 1
    assert list((run.output / "live").iterdir()) == []
    check_ordinary(run, [4, 4, 4])
    shown = sonde("trace", run.output, "--run", "last").stdout
    assert shown.count("epoch[") == 3


def test_target_network(tmp_path):
    run = run_case(tmp_path / "run", "target_network")
    check_ordinary(run, [4, 4])
    check_parts(run, forward=2)


@pytest.mark.parametrize("parts", [15, 16, 40])
def test_parts_called_while_building(tmp_path, parts):
    run = run_case(tmp_path / "run", "parts_called_while_building", parts)
    names = {f"l.{part}.{kind}" for part in range(parts) for kind in LINEAR}
    check_ordinary(run, [4, 4], names)
    assert {class_of(forward) for forward in named_in_steps(run, "forward")} == {"Net"}


def named_in_steps(run, name):
    return [span for step in run.named("step") for span in named(step, name)]


def test_keras_functional_torch_loop(tmp_path):
    pytest.importorskip("keras")
    run = run_case(tmp_path / "run", "keras_functional_torch_loop")
    check_levels(run, [4, 4])
    check_parts(run, backward=1, optimizer_step=1)
    assert {count(step, "forward") for step in run.named("step")} == {1}
    for tensors in run.snapshots():
        weights = [tensors[name]["shape"] for name in tensors if not name.endswith(".grad")]
        gradients = [tensors[name]["shape"] for name in tensors if name.endswith(".grad")]
        assert weights == [[4, 8], [8], [8, 1], [1]]
        assert sorted(gradients) == sorted(weights)
        assert all(record["stats"] is not None for record in tensors.values())
    assert len(run.snapshots()) == 2


# -- without a loader --


def test_two_optimizers_no_loader(tmp_path):
    run = run_case(tmp_path / "run", "two_optimizers_no_loader")
    check_levels(run, [50])
    for name, number in {"forward": 200, "backward": 100, "optimizer_step": 100}.items():
        assert len(named_in_steps(run, name)) == count(run.session, name) == number
    # A step may begin anywhere in an iteration, but each has both optimizers.
    assert {count(step, "optimizer_step") for step in run.named("step")[1:-1]} == {2}
    names = set().union(*run.snapshots())
    # Two models of one class, each under its own name.
    assert len(names) == 8
    assert {name.split(".", 1)[1] for name in names} == LINEAR | {"weight.grad", "bias.grad"}
    assert len(run.snapshots()) == 1


@pytest.mark.parametrize("program", ["loop_without_loader", "model_gone_before_exit"])
def test_without_a_loader(tmp_path, program):
    run = run_case(tmp_path / "run", program)
    check_ordinary(run, [50])
    check_parts(run, forward=1)


def test_overfit_one_batch(tmp_path):
    run = run_case(tmp_path / "run", "overfit_one_batch")
    check_ordinary(run, [1000, 1000])
    check_parts(run, forward=1)
    assert count(run.session, "data_load") == 1


def test_sgd_by_hand(tmp_path):
    run = run_case(tmp_path / "run", "sgd_by_hand")
    check_levels(run, [100])
    check_parts(run, forward=1, backward=1)
    assert count(run.session, "optimizer_step") == 0
    check_snapshots(run, LINEAR, epochs=1, gradients=False)


# -- processes, exceptions, mixed precision --


def ranks_of(tmp_path, change=lambda source: source):
    if not torch.distributed.is_available():
        pytest.skip("torch.distributed is not there")
    return run_ranks(tmp_path, change((CASES / "fsdp2_group_destroyed.py").read_text()))


def test_fsdp2_group_destroyed(tmp_path):
    shapes = {"0.weight": [4, 8], "0.bias": [4], "1.weight": None, "1.bias": None}
    for rank, run in enumerate(ranks_of(tmp_path)):
        check_levels(run, [10])
        check_parts(run, forward=1, backward=1, optimizer_step=1)
        (tensors,) = run.snapshots()
        assert set(tensors) == set(shapes) | {f"{name}.grad" for name in shapes}
        for name, record in tensors.items():
            assert record["stats"] is not None, record["attrs"]
            assert record["attrs"]["shard"]["rank"] == rank
            shape = shapes[name.removesuffix(".grad")]
            # One row for two ranks: the second has an empty part.
            assert record["shape"] == (shape or [1 - rank, 8][: len(record["shape"])])
        assert "error" not in sonde("snapshots", run.output).stdout


def test_fsdp2_group_destroyed_with_nan(tmp_path):
    def train_to_nan(source):
        assert "lr=0.1" in source
        return source.replace("lr=0.1", "lr=float('nan')")

    for run in ranks_of(tmp_path, train_to_nan):
        (tensors,) = run.snapshots()
        assert tensors["0.weight"]["stats"]["nan_count"] == 32
        assert "first_non_finite" in [mark["name"] for mark in run.spool.marks]


def test_exception(tmp_path):
    run = run_case(tmp_path / "run", "exception", status=1)
    assert "RuntimeError: boom" in run.stderr
    check_levels(run, [4, 3])
    raised = [span for span in run.spool.spans if exception_of(span)]
    assert [exception_of(span) for span in raised] == [("RuntimeError", "boom")] * 3
    last = run.epochs()[-1]
    through = [run.session, last, named(last, "step")[-1]]
    assert {span["id"] for span in raised} == {span["id"] for span in through}
    shown = sonde("trace", run.output).stdout
    assert "RuntimeError" in shown and "boom" in shown
    check_snapshots(run, LINEAR, epochs=2)
    check_taken_after_the_last_update(run)


def test_scaler_skips(tmp_path):
    updates = "int(next(iter(o.state.values()))['step']) if o.state else 0"
    run = run_case(tmp_path / "run", "scaler_skips", then=updates)
    skipped = 30 - run.then()
    assert skipped > 0, "the program skips nothing here"
    check_levels(run, [10, 10, 10])
    assert count(run.session, "backward") == len(named_in_steps(run, "backward")) == 30
    for step in run.named("step"):
        assert is_skipped(step) == (count(step, "optimizer_step") == 0)
    assert sum(is_skipped(step) for step in run.named("step")) == skipped
    lines = [line for line in (run.stdout + run.stderr).splitlines() if "skipped" in line]
    assert len(lines) == 1 and re.search(rf"\b{skipped}\b", lines[0]), lines
    check_snapshots(run, {"a.weight", "a.bias", "b.weight", "b.bias"}, epochs=3, gradients=False)
    assert run.runs() == 1 and len(run.roots) == 1
