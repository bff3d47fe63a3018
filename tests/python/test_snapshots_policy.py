"""Which snapshots a session takes: off, stats, sampled, full."""

import random
import weakref
from pathlib import Path
from urllib.parse import unquote, urlparse

import cirron as ci
import numpy as np
import pytest
from snapshot_records import gradients, records, same, weights

torch = pytest.importorskip("torch")

from torch_loops import Loop, make_loader  # noqa: E402

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


def start(**options):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], flush_interval=3600, **options)


def load(uri):
    safetensors = pytest.importorskip("safetensors.torch")
    path = Path(unquote(urlparse(uri).path))
    assert path.is_absolute()
    return safetensors.load_file(path)


def test_off_does_nothing_at_all(spool_dir, monkeypatch):
    from sonde import _core

    for name in ("capture", "submit", "set_listeners"):
        monkeypatch.setattr(_core.snapshots, name, None)
    start(snapshots="off")
    loop = Loop(2)
    asked = []
    monkeypatch.setattr(type(loop.loader), "__len__", lambda self: asked.append(1) or 2)
    before = weakref.getweakrefcount(loop.model)
    ci.watch(loop.model)
    assert weakref.getweakrefcount(loop.model) == before
    for _ in ci.epochs(range(2)):
        loop.epoch()
    assert _core.snapshots.seen_models() == []
    assert not asked
    monkeypatch.undo()
    assert records(spool_dir) == []


def test_stats_write_no_files(spool_dir):
    start(snapshots="stats")
    Loop(2).epoch()
    (epoch,) = records(spool_dir)
    assert {record["mode"] for record in epoch.values()} == {"stats"}
    assert {record["blob_uri"] for record in epoch.values()} == {None}
    assert not (spool_dir.parent / "snapshots").exists()


def test_full_keeps_every_tensor(spool_dir):
    start(snapshots="full")
    loop = Loop(2)
    loop.epoch()
    (epoch,) = records(spool_dir)
    assert {record["mode"] for record in epoch.values()} == {"full"}
    (uri,) = {epoch[name]["blob_uri"] for name in weights(epoch)}
    kept = load(uri)
    assert sorted(kept) == sorted(NAMES)
    assert all(torch.equal(kept[name], dict(loop.model.named_parameters())[name]) for name in NAMES)
    (uri,) = {record["blob_uri"] for record in gradients(epoch).values()}
    kept = load(uri)
    assert sorted(kept) == sorted(NAMES)  # as the parameters are called
    assert all(same(epoch[f"{name}.grad"], kept[name]) for name in NAMES)
    assert all("sampled" not in record["attrs"] for record in epoch.values())


def test_gradients_of_two_optimizers_are_one_file(spool_dir):
    start(snapshots="full")
    first, second = Loop(2), Loop(2)
    second.model.to(torch.bfloat16)  # other widths, which a file must not mix
    ci.watch(first.model, name="a")
    ci.watch(second.model, name="b")
    used = {}
    for x, y in make_loader(3):
        for name, loop in (("b", second), ("a", first)):
            kind = next(loop.model.parameters()).dtype
            loop.step(x.to(kind), y.to(kind))
            used.update({f"{name}.{k}": p.grad.clone() for k, p in loop.model.named_parameters()})
            loop.optimizer.zero_grad()
    (epoch,) = records(spool_dir)
    assert len(gradients(epoch)) == 8
    (uri,) = {record["blob_uri"] for record in gradients(epoch).values()}
    kept = load(uri)
    assert sorted(kept) == sorted(used)
    assert all(torch.equal(kept[name], used[name]) for name in used)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, {False}), (1.0, {True})])
def test_sampled_at_its_ends(spool_dir, rate, expected):
    start(snapshots="sampled", sample_rate=rate)
    loop = Loop(2)
    for _ in range(3):
        loop.epoch()
    for epoch in records(spool_dir):
        assert {record["attrs"]["sampled"] for record in epoch.values()} == expected
        assert {record["mode"] for record in epoch.values()} == (
            {"sampled"} if expected == {True} else {"stats"}
        )


def test_sampled_decides_for_each_epoch(spool_dir):
    start(snapshots="sampled", sample_rate=0.5)
    loop = Loop(1)
    for _ in range(40):
        loop.epoch()
    decisions = []
    for epoch in records(spool_dir):
        (decision,) = {record["attrs"]["sampled"] for record in epoch.values()}
        assert {record["blob_uri"] is not None for record in epoch.values()} == {decision}
        decisions.append(decision)
    assert 5 < sum(decisions) < 35


def test_ranks_decide_alike_and_runs_do_not():
    from sonde.snapshots.recorder import Recorder

    def decisions(run):
        recorder = Recorder("sampled", 0.3, 1, run)
        return [recorder._draw(index) for index in range(100) for _ in range(2)]

    assert decisions("run 1") == decisions("run 1") != decisions("run 2")
    assert 30 < sum(decisions("run 1")) < 90


def test_the_run_has_one_name_on_all_ranks(monkeypatch):
    from sonde.program import Membership

    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("RANK", "0")
    first = Membership().launch
    monkeypatch.setenv("RANK", "1")
    assert first
    assert Membership().launch == first


def test_the_random_numbers_of_the_program_are_not_drawn(spool_dir):
    start(snapshots="sampled", sample_rate=0.5)
    loop = Loop(2)
    ci.watch(loop.model)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with ci.scope("epoch"):
        pass
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert before == after


def test_a_full_session_without_a_directory_keeps_its_statistics():
    start(snapshots="full", output="none")
    Loop(2).epoch()
    ci.flush()
    assert ci.health()["snapshot_count"] == 8


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_the_result(spool_dir, threads):
    start(config={"snapshots": {"threads": threads}})
    model = torch.nn.Linear(700, 900)
    ci.watch(model)
    with ci.scope("epoch"):
        pass
    (epoch,) = records(spool_dir)
    assert same(epoch["weight"], model.weight)


@pytest.mark.parametrize("bad", [None, {"threads": 0}, {"threads": "x"}, {"threads": True}, 3])
def test_odd_options_are_passed_over(spool_dir, caplog, bad):
    start(config={"snapshots": bad})
    Loop(2).epoch()
    assert len(records(spool_dir)) == 1
    assert caplog.text.count('"snapshots": {"threads": N}') == (bad is not None)


def test_the_first_value_that_is_not_finite_is_reported_once(spool_dir, caplog):
    start()
    loop = Loop(3)
    loop.epoch()
    with torch.no_grad():
        loop.model[2].bias.fill_(float("nan"))
    loop.epoch()
    loop.epoch()
    epochs = records(spool_dir)
    assert epochs[1]["2.bias"]["stats"]["nan_count"] == 1
    said = [r.message for r in caplog.records if "first non-finite" in r.message]
    assert len(said) == 1
    assert "2.bias" in said[0] or "0.weight" in said[0]
    assert "epoch[1]" in said[0]
    assert "step[2]" in said[0]
