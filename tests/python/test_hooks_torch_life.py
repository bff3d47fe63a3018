"""The PyTorch hook: installing and removing it, other tools, other processes."""

import pickle

import cirron as ci
import pytest
from child_process import run_python
from spool_files import Spool
from trees import sketch, spans

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torch_loops import Loop, make_model, steps  # noqa: E402

pytestmark = pytest.mark.usefixtures("hooked")


# -- life of the hook --


def hooked_objects():
    from torch.optim import optimizer as optim

    return (
        torch.autograd.backward,
        torch.Tensor.backward,
        torch.nn.Module.__call__,
        DataLoader.__iter__,
        DataLoader.__dict__.get("__init_subclass__"),
        torch.amp.GradScaler.step,
        dict(optim._global_optimizer_pre_hooks),
        dict(optim._global_optimizer_post_hooks),
    )


def test_shutdown_restores_the_identical_originals():
    ci.shutdown()
    before = hooked_objects()
    ci.profile(output="none", frameworks=["torch"])
    during = hooked_objects()
    assert during[0] is not before[0]
    assert during[2] is before[2], "the function object stays: Dynamo compares it"
    ci.shutdown()
    after = hooked_objects()
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))
    loop = Loop()
    loop.epoch()
    assert spans("forward") == []


def test_backward_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(torch.autograd.backward)) is torch.autograd.backward
    text = pickle.dumps(torch.autograd.backward)
    ci.shutdown()
    assert pickle.loads(text) is torch.autograd.backward


@pytest.mark.parametrize("ours_goes_first", [True, False])
@pytest.mark.parametrize("installed", ["before", "after"])
def test_beside_another_tool(installed, ours_goes_first):
    calls = []
    places = [
        (torch.autograd, "backward"),
        (DataLoader, "__iter__"),
        (nn.Module, "__call__"),
        (torch.amp.GradScaler, "step"),
    ]

    class Tool:
        def install(self):
            self.originals = [vars(owner)[name] for owner, name in places]
            for (owner, name), original in zip(places, self.originals, strict=True):
                setattr(owner, name, self.wrap(original, name))

        def wrap(self, original, name):
            def wrapper(*args, **kwargs):
                calls.append(name)
                return original(*args, **kwargs)

            return wrapper

        def remove(self):
            for (owner, name), original in zip(places, self.originals, strict=True):
                setattr(owner, name, original)

    ci.shutdown()
    pristine = [vars(owner)[name] for owner, name in places]
    tool, loop = Tool(), Loop(2)
    if installed == "before":
        tool.install()
    ci.profile(output="none", frameworks=["torch"])
    if installed == "after":
        tool.install()
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"
    assert {"backward", "__iter__", "__call__"} <= set(calls)
    for remove in (ci.shutdown, tool.remove) if ours_goes_first else (tool.remove, ci.shutdown):
        remove()
    calls.clear()
    recorded = len(spans("forward"))
    loop.epoch()
    # If one tool puts back a function of the other after that was removed, it does nothing.
    assert len(spans("forward")) == recorded
    if installed == "after" or ours_goes_first:
        assert calls == []
    ci.profile(output="none", frameworks=["torch"])
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(2)})"
    ci.shutdown()
    for (owner, name), original in zip(places, pristine, strict=True):
        setattr(owner, name, original)


def test_sessions_count_from_zero():
    loop = Loop(1)
    loop.epoch()
    ci.shutdown()
    ci.profile(output="none", frameworks=["torch"])
    loop.epoch()
    assert sketch() == f"epoch[0]({steps(1)})"


def test_iterator_that_outlives_its_session():
    loop = Loop(4)
    iterator = iter(loop.loader)
    loop.step(*next(iterator))
    ci.shutdown()
    loop.step(*next(iterator))
    ci.profile(output="none", frameworks=["torch"])
    loop.epoch()
    with ci.scope("mine"):
        pass
    assert sketch() == f"epoch[0]({steps(4)}) mine"
    loop.step(*next(iterator))
    assert len(list(iterator)) == 1
    assert [root["name"] for root in ci.trace(format="dict")["roots"]] == ["cirron.session"]


def test_shutdown_in_the_middle_of_an_epoch_writes_it(spool_dir):
    ci.shutdown()
    ci.profile(frameworks=["torch"])
    loop = Loop(3)
    for x, y in loop.loader:
        loop.step(x, y)
        ci.shutdown()
        break
    spool = Spool(spool_dir)
    epoch, step = spool.one("epoch"), spool.one("step")
    assert (epoch["index"], step["index"], step["parent_id"]) == (0, 0, epoch["id"])
    assert spool.one("data_load")["parent_id"] == step["id"]


def test_frameworks_chosen_by_the_caller():
    ci.shutdown()
    ci.profile(output="none", frameworks=[])
    Loop(1).epoch()
    assert sketch() == ""


def test_unknown_framework_warns(caplog):
    ci.shutdown()
    handle = ci.profile(output="none", frameworks=["torch", "nonsense"])
    assert handle.installed_hooks == ["torch"]
    (record,) = [r for r in caplog.records if r.name == "cirron.hooks"]
    assert "nonsense" in record.message
    assert record.levelname == "WARNING"


def test_hook_that_fails_warns_and_steps_aside(caplog, monkeypatch):
    ci.shutdown()
    before = hooked_objects()
    monkeypatch.delattr(torch, "autograd")
    ci.profile(output="none", frameworks=["torch"])
    monkeypatch.undo()
    (record,) = [r for r in caplog.records if r.name == "cirron.hooks.torch"]
    assert "the torch hook is off" in record.message
    assert ci.health()["swallowed_errors"] == {"hooks.torch": 1}
    Loop(1).epoch()
    assert sketch() == ""
    assert all(a is b or a == b for a, b in zip(before, hooked_objects(), strict=True))


def test_uninstalling_one_hook(hooked):
    (handle,) = hooked.hook_handles
    assert (handle.name, handle.active) == ("torch", True)
    handle.uninstall()
    handle.uninstall()
    assert not handle.active
    Loop(1).epoch()
    assert sketch() == ""


def test_pickled_model_is_the_models_own_affair():
    model = make_model()
    model(torch.zeros(1, 4))
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(torch.ones(1, 4)), model(torch.ones(1, 4)))


# -- in another process --


def test_profile_imports_no_framework(workdir):
    run_python("""
        import sys
        import cirron as ci
        handle = ci.profile(output="none")
        frameworks = ("torch", "tensorflow", "keras", "transformers", "lightning", "sklearn")
        assert not [name for name in frameworks if name in sys.modules]
        assert "torch" in handle.installed_hooks
        assert not any(hook.active for hook in handle.hook_handles)
    """)


def test_framework_imported_after_profile(workdir):
    run_python("""
        import sys
        import cirron as ci
        handle = ci.profile(output="none")
        import torch
        hook = handle.hook_handles[handle.installed_hooks.index("torch")]
        assert hook.active
        assert type(torch.__spec__.loader).__module__ != "sonde.hooks.watcher"
        assert type(torch.__loader__).__module__ != "sonde.hooks.watcher"
        torch.nn.Linear(2, 2)(torch.zeros(1, 2))
        names = [s["name"] for s in ci.trace(format="dict")["roots"][0]["children"]]
        assert names == ["forward"], names
        ci.shutdown()
        assert not any(type(f).__module__ == "sonde.hooks.watcher" for f in sys.meta_path)
    """)


def test_import_survives_what_waits_for_it(workdir, tmp_path):
    (tmp_path / "awaited.py").write_text("value = 1")
    done = run_python(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        from sonde.hooks.watcher import watch
        watch("awaited", lambda: 1 / 0)
        import awaited
        assert awaited.value == 1
        """,
        tmp_path,
    )
    said = "the import of awaited could not be followed: division by zero; please report this"
    assert said in done.stderr


def test_framework_imported_after_shutdown_is_left_alone(workdir):
    run_python("""
        import cirron as ci
        ci.profile(output="none")
        ci.shutdown()
        import torch
        torch.nn.Linear(2, 2)(torch.zeros(1, 2))
        assert ci.trace(format="dict")["span_count"] == 1
    """)


COMPILE = """
    import logging, sys, warnings
    import torch
    from torch import nn
    from torch._dynamo.utils import counters
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    import cirron as ci

    if sys.argv[1] == "hooked":
        ci.profile(output="none", frameworks=["torch"])
    elif sys.version_info >= (3, 13):
        # There any hook of a step makes torch 2.13 run its own wrapper of the step uncompiled.
        for register in (register_optimizer_step_pre_hook, register_optimizer_step_post_hook):
            register(lambda *args: None)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
                          nn.Linear(8, 1))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="aot_eager")
    def whole_step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for size in (2, 2, 2):
            x = torch.zeros(size, 4)
            compiled(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        for _ in range(3):
            whole_step(torch.zeros(2, 4))
    found = {
        "breaks": sum(counters["graph_break"].values()),
        "unique_graphs": counters["stats"]["unique_graphs"],
        "calls": counters["stats"]["calls_captured"],
        "warnings": sorted({str(w.message).splitlines()[0][:80] for w in said}),
    }
    print(found)
    if sys.argv[1] == "hooked":
        assert ci.trace(format="json").count('"name":"forward"') >= 1
"""


def test_compile_sees_no_difference(workdir):
    bare = run_python(COMPILE, "bare").stdout
    hooked = run_python(COMPILE, "hooked").stdout
    assert "unique_graphs" in bare
    assert hooked == bare


COMPILED_LOOP = """
    import sys, warnings
    import torch
    from torch.utils.data import DataLoader
    from torch._dynamo.utils import counters
    import cirron as ci

    if sys.argv[1] == "hooked":
        ci.profile(output="none", frameworks=["torch"])
    model = torch.nn.Linear(2, 2)
    loader = DataLoader(torch.zeros(6, 2), batch_size=2)

    @torch.compile(backend="eager")
    def total():
        found = 0
        for x in loader:
            found = found + model(x).sum()
        return found

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        total()
    print(sum(counters["graph_break"].values()), [str(w.message)[:90] for w in said])
"""


def test_compiled_loop_over_a_loader(workdir):
    bare = run_python(COMPILED_LOOP, "bare").stdout
    assert run_python(COMPILED_LOOP, "hooked").stdout == bare


DISTRIBUTED = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
    import cirron as ci

    ci.profile(frameworks=["torch"])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    if sys.argv[1] == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(("kind", "ranks"), [("ddp", 2), ("ddp", 4), ("fsdp", 2)])
def test_distributed(workdir, spool_dir, kind, ranks):
    import os
    import subprocess
    import sys
    import textwrap

    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20_000 + os.getpid() % 20_000 + ranks),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(DISTRIBUTED), kind],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for process in running:
        errors = process.communicate(timeout=200)[1]
        assert process.returncode == 0, errors
    spool = Spool(spool_dir)
    per_epoch = 16 // ranks // 2
    for rank in range(ranks):
        mine = [span for span in spool.spans if span["rank"] == rank]
        count = {name: sum(s["name"] == name for s in mine) for name in {s["name"] for s in mine}}
        assert count == {
            "cirron.session": 1,
            "epoch": 2,
            "step": 2 * per_epoch,
            "data_load": 2 * per_epoch,
            "forward": 2 * per_epoch,
            "backward": 2 * per_epoch,
            "optimizer_step": 2 * per_epoch,
        }
        parents = {span["id"]: span for span in mine}
        for span in mine:
            if span["name"] in ("data_load", "forward", "backward", "optimizer_step"):
                assert parents[span["parent_id"]]["name"] == "step"
