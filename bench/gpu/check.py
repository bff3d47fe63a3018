"""GPU time and memory on a real device: one line for each thing that must hold."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable

import cirron as ci
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKS: list[Callable[[], str | None]] = []
HOOKED = ("data_load", "forward", "backward", "optimizer_step", "step", "epoch")
SLEEP_CYCLES = 200_000_000  # a tenth of a second and more


def check(function: Callable[[], str | None]) -> Callable[[], str | None]:
    CHECKS.append(function)
    return function


def spans(name: str | None = None) -> list[dict]:
    found = []

    def visit(span: dict) -> None:
        found.append(span)
        for child in span["children"]:
            visit(child)

    for root in ci.trace(format="dict")["roots"]:
        visit(root)
    return [span for span in found if name is None or span["name"] == name]


class Work:
    """A model large enough for the GPU's time to be visible."""

    def __init__(self, batches: int = 4) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4))).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        data = TensorDataset(torch.randn(512 * batches, 2048, device="cuda"))
        self.loader = DataLoader(data, batch_size=512)

    def train(self) -> None:
        for (x,) in self.loader:
            self.optimizer.zero_grad()
            self.model(x).square().mean().backward()
            self.optimizer.step()


def near(a: float, b: float, share: float = 0.15, slack: float = 30_000) -> bool:
    return abs(a - b) <= share * max(a, b) + slack


@check
def every_hook_span_has_gpu_time() -> str:
    work = Work()
    work.train()
    ci.profile(output="none", frameworks=["torch"])
    work.train()
    for name in HOOKED:
        for span in spans(name):
            assert span["gpu_ns"] is not None, name
    for step in spans("step"):
        parts = sum(child["gpu_ns"] for child in step["children"])
        assert parts <= step["gpu_ns"] * 1.02 + 20_000, (parts, step["gpu_ns"])
    (epoch,) = spans("epoch")
    assert epoch["gpu_ns"] >= sum(step["gpu_ns"] for step in spans("step")) * 0.98
    return f"forward {spans('forward')[-1]['gpu_ns'] / 1e3:.0f} us"


@check
def gpu_time_is_what_torch_measures() -> str:
    work = Work(1)
    x = next(iter(work.loader))[0]
    work.model(x)
    torch.cuda.synchronize()
    ci.profile(output="none", frameworks=["torch"])
    pairs = []
    for _ in range(5):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # so that the host is ahead
        a.record()
        for _ in range(10):
            work.model(x)
        b.record()
        torch.cuda.synchronize()
        pairs.append(a.elapsed_time(b) * 1e6)
    ours = [span["gpu_ns"] for span in spans("forward")]
    theirs = sum(pairs)
    assert near(sum(ours), theirs), (sum(ours), theirs)
    return f"ours {sum(ours) / 1e6:.2f} ms, torch {theirs / 1e6:.2f} ms"


@check
def user_scopes_on_request() -> str:
    torch.zeros(1, device="cuda")
    ci.profile(output="none", frameworks=["torch"])
    with ci.scope("with", gpu=True):
        torch.cuda._sleep(SLEEP_CYCLES)
    with ci.scope("without"):
        torch.cuda._sleep(1000)
    with ci.scope("attribute", gpu="H200"):
        pass
    (asked,) = spans("with")
    assert asked["gpu_ns"] > 50_000_000, asked
    assert "gpu" not in asked["attrs"]
    assert spans("without")[0]["gpu_ns"] is None
    assert spans("attribute")[0]["attrs"] == {"gpu": "H200"}
    return f"{asked['gpu_ns'] / 1e6:.0f} ms of GPU in {asked['wall_us'] / 1e3:.2f} ms of host"


@check
def the_host_never_waits() -> str:
    work = Work(2)
    work.train()
    torch.cuda.synchronize()
    ci.profile(output="none", frameworks=["torch"], flush_interval=0.01)
    work.train()
    torch.cuda.synchronize()
    torch.cuda._sleep(4 * SLEEP_CYCLES)
    busy = torch.cuda.Event()
    busy.record()
    start = time.perf_counter()
    work.train()
    took = time.perf_counter() - start
    assert not busy.query(), "the device was ahead: make the sleep longer"
    torch.cuda.synchronize()
    assert len([s for s in spans("step") if s["gpu_ns"] is not None]) == 4
    return f"two steps recorded in {took * 1e3:.1f} ms while the device slept"


def api_calls(run: Callable[[], None]) -> dict[str, int]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        run()
    calls: dict[str, int] = {}
    for event in recorded.events():
        if event.name.startswith(("cuda", "cu")):
            calls[event.name] = calls.get(event.name, 0) + 1
    return calls


@check
def no_synchronisation_is_added() -> str:
    work = Work()
    for _ in range(3):
        work.train()
    torch.cuda.synchronize()
    bare = api_calls(work.train)
    ci.profile(output="none", frameworks=["torch"], flush_interval=0.01)
    work.train()
    torch.cuda.synchronize()
    hooked = api_calls(work.train)
    waits = {name for name in bare | hooked if "Synchronize" in name or "StreamWait" in name}
    counts = {name: (bare.get(name, 0), hooked.get(name, 0)) for name in waits}
    assert all(a == b for a, b in counts.values()), counts
    return f"waiting calls (bare, hooked): {counts}"


@check
def other_streams() -> str:
    side = torch.cuda.Stream()
    torch.zeros(1, device="cuda")
    ci.profile(output="none", frameworks=["torch"])
    with torch.cuda.stream(side), ci.scope("side", gpu=True):
        torch.cuda._sleep(SLEEP_CYCLES)
    crossing = ci.scope("crossing", gpu=True)
    crossing.__enter__()
    with torch.cuda.stream(side):
        crossing.__exit__(None, None, None)
    torch.cuda.synchronize()
    assert spans("side")[0]["gpu_ns"] > 50_000_000
    assert spans("crossing")[0]["gpu_ns"] is None, "two streams have no common clock to trust"
    return "its own stream's time; null across two"


@check
def graph_capture() -> str:
    model = nn.Linear(512, 512).cuda()
    x = torch.randn(64, 512, device="cuda")
    expected = model(x)
    torch.cuda.synchronize()
    ci.profile(output="none", frameworks=["torch"], flush_interval=0.001)
    model(x)
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph), ci.scope("captured", gpu=True):
        result = model(x)
        time.sleep(0.2)  # gives the drain thread time to look for finished events
    with ci.scope("replay", gpu=True):
        for _ in range(20):
            graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(result, expected, atol=1e-4)
    assert spans("captured")[0]["gpu_ns"] is None
    assert spans("forward")[-1]["gpu_ns"] is None
    assert spans("replay")[0]["gpu_ns"] > 0
    return "nothing recorded inside, replay timed"


@check
def memory_peak() -> str:
    work = Work()
    work.train()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    work.train()
    alone = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    ci.profile(output="none", frameworks=["torch"])
    work.train()
    torch.cuda.synchronize()
    peaks = [span["memory_peak_bytes"] for span in spans("step")]
    known = [peak for peak in peaks if peak is not None]
    assert torch.cuda.max_memory_allocated() == alone, "the program's own statistics changed"
    assert known, peaks
    assert max(known) == alone, (known, alone)
    assert all(span["memory_peak_bytes"] is None for span in spans("forward"))
    return f"{alone / 1e6:.1f} MB on {len(known)} of {len(peaks)} steps"


@check
def events_are_pooled() -> str:
    work = Work(2)
    ci.profile(output="none", frameworks=["torch"], flush_interval=0.02)
    for _ in range(50):
        work.train()
        torch.cuda.synchronize()
        time.sleep(0.03)
    made = ci.health()["cuda_event_count"]
    assert 0 < made < 600, made
    return f"{made} events for 100 steps"


@check
def shutdown_while_the_device_is_busy() -> str:
    torch.zeros(1, device="cuda")
    ci.profile(output="none", frameworks=["torch"])
    model = nn.Linear(64, 64).cuda()
    model(torch.zeros(8, 64, device="cuda"))
    torch.cuda.synchronize()
    for _ in range(40):
        torch.cuda._sleep(SLEEP_CYCLES)
    model(torch.zeros(8, 64, device="cuda"))
    start = time.perf_counter()
    ci.shutdown()
    took = time.perf_counter() - start
    torch.cuda.synchronize()
    last = spans("forward")[-1]
    assert took < 3.5, took
    assert last["gpu_ns"] is None
    return f"{took:.1f} s, then null"


@check
def before_the_first_use_nothing_is_started() -> str:
    code = (
        "import torch, cirron as ci\n"
        "ci.profile(output='none', frameworks=['torch'])\n"
        "torch.nn.Linear(2, 2)(torch.zeros(1, 2))\n"
        "assert not torch.cuda.is_initialized()\n"
        "assert ci.trace(format='dict')['roots'][0]['children'][0]['gpu_ns'] is None\n"
        "torch.nn.Linear(2, 2).cuda()(torch.zeros(1, 2).cuda())\n"
        "torch.nn.Linear(2, 2).cuda()(torch.zeros(1, 2).cuda())\n"
        "torch.cuda.synchronize()\n"
        "assert ci.trace(format='dict')['roots'][0]['children'][-1]['gpu_ns'] is not None\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "no context of ours; timed from then on"


@check
def a_forked_child_is_on_its_own() -> str:
    torch.zeros(1, device="cuda")
    ci.profile(output="none", frameworks=["torch"])
    nn.Linear(4, 4).cuda()(torch.zeros(1, 4, device="cuda"))
    child = os.fork()
    if child == 0:
        try:
            with ci.scope("child", gpu=True):
                nn.Linear(4, 4)(torch.zeros(1, 4))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    return "no event of its parent's is touched"


@check
def compiled_model() -> str:
    from torch._dynamo.utils import counters

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
    x = torch.randn(8, 64, device="cuda")

    def breaks() -> int:
        torch._dynamo.reset()
        counters.clear()
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            compiled(x).sum().backward()
        return sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]

    bare = breaks()
    ci.profile(output="none", frameworks=["torch"])
    assert breaks() == bare
    assert spans("forward")[-1]["gpu_ns"] is not None
    return f"graph breaks and graphs {bare}"


def main() -> int:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {sys.version.split()[0]}")
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            said = function()
            print(f"ok      {name}: {said}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}")
        finally:
            ci.shutdown()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
