"""The first NaN or infinity of a session is reported once, in the log and the lines, and marked."""

import logging

import cirron as ci
import pytest
from spool_files import Spool

torch = pytest.importorskip("torch")

TEXT = "[cirron] first non-finite value: 1.weight at epoch[2]"


def train_until_it_breaks(epochs=5):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    ci.watch(model)
    for epoch in ci.epochs(range(epochs)):
        if epoch == 2:
            with torch.no_grad():
                model[1].weight[0, 1] = float("inf")
                model[1].bias.fill_(float("nan"))


@pytest.mark.parametrize("snapshots", ["stats", "full"])
def test_it_is_reported_once_and_stays_on_its_epoch(snapshots, caplog, capsys, spool_dir):
    ci.profile(frameworks=["torch"], output=["spool", "stdout"], snapshots=snapshots)
    train_until_it_breaks()
    ci.flush()
    live = capsys.readouterr().out
    ci.trace()
    tree = capsys.readouterr().out
    ci.shutdown()
    warned = [(r.name, r.getMessage()) for r in caplog.records if r.levelno == logging.WARNING]
    assert warned == [("cirron.profiler", TEXT)]
    assert live.splitlines().count(TEXT) == 1
    spool = Spool(spool_dir)
    (mark,) = (mark for mark in spool.marks if mark["name"] == "first_non_finite")
    assert mark["value"] == "1.weight"
    assert mark["value_type"] == "string"
    assert mark["kind"] == "point"
    assert mark["attrs"]["epoch"] == 2
    assert [e["index"] for e in spool.named("epoch") if e["id"] == mark["span_id"]] == [2]
    assert [line for line in tree.splitlines() if "first_non_finite=1.weight" in line] == [
        line for line in tree.splitlines() if line.strip().startswith("epoch[2]")
    ]


def test_the_log_sink_has_it_as_it_is(caplog):
    caplog.set_level(logging.INFO)
    ci.profile(frameworks=["torch"], output="log")
    train_until_it_breaks()
    ci.shutdown()
    said = [r.name for r in caplog.records if r.getMessage() == TEXT]
    assert sorted(said) == ["cirron.profiler", "cirron.trace"]
    assert not [r for r in caplog.records if "[cirron] [cirron]" in r.getMessage()]


def test_a_session_is_told_anew(caplog):
    for _ in range(2):
        ci.profile(frameworks=["torch"], output="none")
        train_until_it_breaks()
        ci.shutdown()
    assert [r.getMessage() for r in caplog.records].count(TEXT) == 2


def test_finite_models_say_nothing(caplog, spool_dir):
    ci.profile(frameworks=["torch"])
    train_until_it_breaks(epochs=2)
    ci.shutdown()
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert Spool(spool_dir).marks == []
