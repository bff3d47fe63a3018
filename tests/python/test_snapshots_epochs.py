"""Where snapshots are taken: one for every epoch of a PyTorch loop, however it was opened."""

import gc

import cirron as ci
import pytest
from snapshot_records import records, same, weights
from sonde import _core

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402
from torch_loops import Loop, make_loader, make_model  # noqa: E402

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.fixture(autouse=True)
def session(fresh_process):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], flush_interval=3600)


def test_every_epoch_of_a_plain_loop_has_its_weights(spool_dir):
    loop = Loop(3)
    seen = []
    for _ in range(3):
        loop.epoch()
        seen.append([parameter.detach().clone() for parameter in loop.model.parameters()])
    epochs = records(spool_dir)
    assert len(epochs) == 3
    for epoch, values in zip(epochs, seen, strict=True):
        assert weights(epoch) == NAMES
        assert all(same(epoch[name], value) for name, value in zip(NAMES, values, strict=True))


def test_validation_and_looks_take_none(spool_dir):
    loop = Loop(2)
    next(iter(loop.loader))
    loop.epoch()
    loop.evaluate()
    next(iter(loop.loader))
    loop.epoch()
    loop.evaluate(make_loader(4))
    assert len(records(spool_dir)) == 2


def test_epochs_of_the_api_need_no_watch(spool_dir):
    loop = Loop(2)
    for _ in ci.epochs(range(2)):
        loop.epoch()
        loop.evaluate()
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [NAMES, NAMES]
    assert same(epochs[1]["0.weight"], loop.model[0].weight)


def test_a_scope_called_epoch_is_an_epoch(spool_dir):
    loop = Loop(2)
    with ci.scope("epoch", 4):
        loop.epoch()
    (epoch,) = records(spool_dir)
    assert weights(epoch) == NAMES


def test_a_loop_without_a_loader(spool_dir):
    ci.shutdown()
    ci.profile(config={"torch": {"epoch_steps": 4}}, frameworks=["torch"], flush_interval=3600)
    loop = Loop()
    for _ in range(10):  # the first is not yet known to be part of a loop
        loop.step(torch.randn(2, 4), torch.randn(2, 1))
    epochs = records(spool_dir)
    assert [weights(epoch) for epoch in epochs] == [NAMES] * 3  # 4, 4, and the one that was open


def test_a_loader_of_unknown_length(spool_dir):
    class Stream(IterableDataset):
        def __iter__(self):
            for _ in range(3):
                yield torch.randn(4), torch.randn(1)

    loop = Loop()
    loop.loader = DataLoader(Stream(), batch_size=1)
    loop.epoch()
    loop.epoch()
    assert len(records(spool_dir)) == 2


def test_a_loader_is_not_asked_for_its_length_where_it_would_remember(spool_dir, recwarn):
    class Liar(IterableDataset):
        def __iter__(self):
            for _ in range(5):
                yield torch.randn(4), torch.randn(1)

        def __len__(self):
            return 2

    loop = Loop()
    loop.loader = DataLoader(Liar(), batch_size=1)
    loop.epoch()
    assert not [w for w in recwarn if "IterableDataset" in str(w.message)]
    assert len(records(spool_dir)) == 1


def test_a_length_that_raises(spool_dir):
    class Odd(DataLoader):
        def __len__(self):
            raise RuntimeError("no length")

    loop = Loop(2)
    loop.loader = Odd(loop.loader.dataset, batch_size=2)
    loop.epoch()
    assert len(records(spool_dir)) == 1


def test_an_epoch_that_is_left_early(spool_dir):
    loop = Loop(4)
    for _ in range(2):
        for x, y in loop.loader:
            loop.step(x, y)
            break
        loop.evaluate()
    assert len(records(spool_dir)) == 2


def test_an_exception_inside_an_epoch(spool_dir):
    loop = Loop(4)

    def fail():
        for i, (x, y) in enumerate(loop.loader):
            loop.step(x, y)
            if i == 1:
                raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    gc.collect()
    loop.epoch()
    assert len(records(spool_dir)) == 2


def test_shutdown_inside_an_epoch_takes_the_last(spool_dir):
    loop = Loop(4)
    loop.epoch()
    batches = iter(loop.loader)
    loop.step(*next(batches))
    loop.step(*next(batches))
    epochs = records(spool_dir)
    assert len(epochs) == 2
    assert same(epochs[1]["0.weight"], loop.model[0].weight)


def test_shutdown_inside_epochs_of_the_api(spool_dir):
    loop = Loop(2)
    for _ in ci.epochs(range(2)):
        loop.epoch()
        ci.shutdown()
        break
    assert len(records(spool_dir)) == 1


def test_shutdown_inside_a_validation_takes_none_of_it(spool_dir):
    loop = Loop(2)
    loop.epoch()
    loop.model.eval()
    with torch.no_grad():
        batches = iter(loop.loader)
        loop.model(next(batches)[0])
        assert len(records(spool_dir)) == 1


def test_an_open_epoch_of_a_program_that_ends(spool_dir):
    from child_process import run_python

    ci.shutdown()
    run_python("""
        import cirron as ci, torch
        ci.profile(frameworks=["torch"])
        model = torch.nn.Linear(2, 1)
        for _ in ci.epochs(range(1)):
            model(torch.ones(2)).backward()
            raise SystemExit(0)
    """)
    (epoch,) = records(spool_dir)
    assert list(epoch) == ["weight", "bias", "weight.grad", "bias.grad"]


def test_two_loaders_in_one_epoch(spool_dir):
    loop, other = Loop(3), make_loader(3)
    for _ in range(2):
        for (x, y), _ in zip(loop.loader, other, strict=True):
            loop.step(x, y)
    assert len(records(spool_dir)) == 2


def test_training_is_the_same_with_and_without(spool_dir):
    def run():
        torch.manual_seed(1)
        loop = Loop(3, shuffle=True)
        loop.optimizer = torch.optim.Adam(loop.model.parameters())
        for _ in range(2):
            loop.epoch()
        return [*loop.model.parameters(), torch.rand(1)]

    results = []
    for mode in ("off", "stats", "full"):
        ci.shutdown()
        ci.profile(frameworks=["torch"], snapshots=mode, flush_interval=3600)
        results.append(run())
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_each_thread_has_its_own_epochs(spool_dir):
    from threading import Thread

    loops = [Loop(2), Loop(3)]
    for loop in loops:
        ci.watch(loop.model)
    threads = [Thread(target=loop.epoch) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(records(spool_dir)) == 2


def test_a_failure_is_reported_once_and_training_goes_on(spool_dir, caplog):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_model()

        def forward(self, x):
            return self.inner(x)

        def named_parameters(self, *args, **kwargs):
            raise RuntimeError("not today")

    loop = Loop(2)
    broken = Broken()
    ci.watch(broken)
    loop.epoch()
    loop.epoch()
    assert records(spool_dir) == []
    said = [record for record in caplog.records if record.name == "cirron.snapshots.stats"]
    assert len(said) == 1
    assert "not today" in said[0].message


@pytest.mark.parametrize("doing", ["sum(range(1000))", "time.sleep(0.01)", "time.sleep(3600)"])
def test_a_program_that_is_told_to_end(spool_dir, doing):
    import signal

    from child_process import RunningPython

    ci.shutdown()
    program = f"""
        import time
        import cirron as ci, torch
        ci.profile(frameworks=["torch"], flush_interval=3600)
        model = torch.nn.Linear(2, 1)
        for _ in ci.epochs(range(1)):
            model(torch.ones(2)).backward()
            print("ready", flush=True)
            while True:
                {doing}
    """
    with RunningPython(program) as child:
        child.wait_for()
        child.signal(signal.SIGTERM)
        status, _, _ = child.finish(timeout=20)
    assert status == -signal.SIGTERM
    (epoch,) = records(spool_dir)
    assert list(epoch) == ["weight", "bias", "weight.grad", "bias.grad"]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_a_signal_that_hits_a_snapshot_reaches_the_program(spool_dir, raised):
    class Hit(torch.nn.Linear):
        def named_parameters(self, *args, **kwargs):
            raise raised

    model = Hit(1, 1)
    ci.watch(model)
    went_on = []

    def run():
        with ci.scope("epoch"):
            pass
        for i in range(100_000):
            went_on.append(i)

    with pytest.raises(raised):
        run()
    assert len(went_on) < 100_000


def test_an_epoch_keeps_a_number_below_zero():
    with ci.scope("epoch", -1):
        assert _core.snapshots.current_epoch()[1] == -1
    with ci.scope("epoch"):
        assert _core.snapshots.current_epoch()[1] is None
