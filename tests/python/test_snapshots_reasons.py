"""If there are no snapshots, one line in the log gives the true reason."""

import cirron as ci
import pytest
from snapshot_records import records
from sonde import snapshots

torch = pytest.importorskip("torch")

from torch_loops import Loop, make_model  # noqa: E402


@pytest.fixture(autouse=True)
def session(fresh_process, caplog):
    caplog.set_level("INFO")
    ci.profile(frameworks=["torch"], flush_interval=3600)


def said(caplog):
    """The messages, without those on frameworks that only other tests have imported."""
    lines = [r.message for r in caplog.records if "no snapshots" in r.message]
    return [each.removeprefix("[cirron] ").split("; profile(frameworks")[0] for each in lines]


def epoch_of_nothing():
    with ci.scope("epoch"):
        pass


def test_there_are_some(spool_dir, caplog):
    assert snapshots.reason() is not None
    Loop(2).epoch()
    assert snapshots.reason() is None
    assert len(records(spool_dir)) == 1
    assert said(caplog) == []


def test_nothing_was_trained_and_nothing_is_logged(spool_dir, caplog):
    with ci.scope("work"):
        pass
    assert records(spool_dir) == []
    assert said(caplog) == []


def test_a_model_is_only_used_and_nothing_is_logged(spool_dir, caplog):
    make_model()(torch.ones(1, 4))
    assert records(spool_dir) == []
    assert said(caplog) == []


def test_no_epoch_has_ended(spool_dir, caplog):
    model = make_model()
    model(torch.ones(1, 4))
    assert "no epoch has ended" in snapshots.reason()
    assert records(spool_dir) == []


def test_no_model_is_known(spool_dir, caplog):
    epoch_of_nothing()
    epoch_of_nothing()
    assert snapshots.reason() == "no model of torch or Keras is known; call ci.watch(model)"
    assert records(spool_dir) == []
    assert said(caplog) == [
        "no snapshots: no model of torch or Keras is known; call ci.watch(model)"
    ]


def test_a_model_without_tensors(spool_dir, caplog):
    model = torch.nn.ReLU()
    ci.watch(model)
    epoch_of_nothing()
    assert snapshots.reason() == "the model has no tensors"
    assert records(spool_dir) == []
    assert said(caplog) == ["no snapshots: the model has no tensors"]


def test_a_model_that_raises(spool_dir, caplog):
    class Broken(torch.nn.Linear):
        def named_parameters(self, *args, **kwargs):
            raise RuntimeError("not today")

    model = Broken(1, 1)
    ci.watch(model)
    epoch_of_nothing()
    assert snapshots.reason() == "the model raises when it is asked for its tensors"
    assert records(spool_dir) == []
    assert len([line for line in said(caplog) if "not today" in line]) == 1


def test_taking_one_has_failed(spool_dir, caplog, monkeypatch):
    from sonde import _core

    def fail(*args):
        raise OSError("no such luck")

    monkeypatch.setattr(_core.snapshots, "capture", fail)
    Loop(2).epoch()
    assert snapshots.reason() == "taking one failed (OSError: no such luck)"
    assert records(spool_dir) == []
    (line,) = [r.message for r in caplog.records if "no more snapshots" in r.message]
    assert "no such luck" in line


def test_none_are_wanted(spool_dir):
    ci.shutdown()
    ci.profile(frameworks=["torch"], snapshots="off")
    assert snapshots.reason() is None
