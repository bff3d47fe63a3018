"""Snapshots on a real device.

snapshots.py           one line for each thing that must hold
snapshots.py table     what they cost, in a process that has done nothing else
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import cirron as ci
import numpy as np
import torch
from sonde import _core
from sonde.snapshots import fallback
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))
from models import resnet50_shapes
from tensor_oracle import oracle

CHECKS: list[Callable[[], str]] = []
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool,
    torch.complex64, torch.complex128,
]  # fmt: skip
UNSIGNED = (torch.uint64, torch.uint32, torch.uint16, torch.uint8)
SLEEP_CYCLES = 1_000_000_000  # half a second


def check(function: Callable[[], str]) -> Callable[[], str]:
    CHECKS.append(function)
    return function


@contextmanager
def session(frameworks: tuple[str, ...] = ("torch",), **options: object) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        ci.profile(path=folder, frameworks=list(frameworks), **options)
        try:
            yield Path(folder)
        finally:
            ci.shutdown()


@contextmanager
def measured_by_torch() -> Iterator[list[torch.Tensor]]:
    """The tensors that no kernel of ours measures."""
    found: list[torch.Tensor] = []
    original = fallback.measure

    def measure(tensors: list[torch.Tensor]) -> list[fallback.Numbers]:
        found.extend(tensors)
        return original(tensors)

    fallback.measure = measure
    try:
        yield found
    finally:
        fallback.measure = original


def records(folder: Path) -> dict[str, dict]:
    """The newest record of each tensor. Ends the session."""
    ci.shutdown()
    found = {}
    for path in sorted((folder / "spool").glob("*.json")):
        for record in json.loads(path.read_text())["snapshots"]:
            found[record["tensor_name"]] = record
    return found


class Tensors(nn.Module):
    """A model that is nothing but its parameters."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        for i, tensor in enumerate(tensors):
            self.register_parameter(f"t{i}", nn.Parameter(tensor, requires_grad=False))


def boundary(model: nn.Module) -> None:
    ci.watch(model)
    for _ in ci.epochs(range(1)):
        pass


def values_of(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor)
    tensor = tensor.detach().cpu()
    if tensor.dtype in UNSIGNED:
        return tensor.numpy().astype(np.float64).ravel()
    return tensor.to(torch.float64).numpy().ravel()


def differences(stats: dict, values: np.ndarray) -> list[str]:
    """Counts and edges must be equal, the rest to 1e-11 of the data's magnitude."""
    with np.errstate(over="ignore"):
        wanted = oracle(values)
    nothing = dict.fromkeys(("mean", "std", "min", "max", "norm"), 0.0)
    nothing["histogram"] = {"counts": [0] * 16, "bins": [0.0] * 17}
    found = stats | nothing | stats["finite"] if "finite" in stats else dict(stats)
    found["counts"], found["edges"] = found["histogram"]["counts"], found["histogram"]["bins"]
    exact = ("count", "nan_count", "inf_count", "zero_count", "min", "max", "counts", "edges")
    wrong = [key for key in exact if found[key] != wanted[key]]
    if "nonfinite" in stats and not np.isnan(values).any():
        minus, plus = wanted["minus_inf_count"] != 0, (values == np.inf).any()
        named = stats["nonfinite"].get("min") == "-inf", stats["nonfinite"].get("max") == "inf"
        if wanted["count"] and named != (minus, plus):
            wrong.append(f"nonfinite {stats['nonfinite']}")
    largest = max(abs(wanted["min"]), abs(wanted["max"]))
    for key, slack in (("mean", largest), ("std", largest), ("norm", wanted["norm"])):
        if not abs(found[key] - wanted[key]) <= 1e-11 * slack:
            wrong.append(f"{key} {found[key]!r} not {wanted[key]!r}")
    return wrong


def random_tensor(random: np.random.Generator, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of random shape, order in memory, magnitude and share of special values."""
    shape = [int(random.integers(1, 60)) for _ in range(int(random.integers(0, 4)))]
    if random.random() < 0.2:
        shape = [int(random.integers(30_000, 200_000))]
    values = random.normal(random.choice([0, 0, 5, 1000]), random.choice([1, 1e-3, 30]), shape)
    kind = random.integers(6)
    if kind == 0:
        values = np.full(shape, float(random.normal()))
    elif kind == 1:
        values = np.round(values * 4) / 4
    elif kind == 2:
        values = np.abs(values) + 1e-7
    tensor = torch.from_numpy(np.asarray(values))
    if dtype.is_floating_point and random.random() < 0.3:
        for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            tensor = torch.where(torch.rand(tensor.shape) < 0.05, special, tensor)
    if dtype.is_floating_point and dtype.itemsize >= 4 and random.random() < 0.2:
        exponent = random.integers(-120, 120) * (8 if dtype.itemsize == 8 else 1)
        tensor = tensor * 2.0 ** float(exponent)
    if not dtype.is_floating_point and not dtype.is_complex:
        tensor = tensor.clamp(0 if dtype in UNSIGNED else -120, 120)
    if dtype in UNSIGNED:
        kind = str(dtype).removeprefix("torch.")
        tensor = torch.from_numpy(np.asarray(tensor.numpy().astype(kind))).cuda()
    else:
        tensor = tensor.cuda().to(dtype)
    if tensor.dim() > 1 and random.random() < 0.4:
        tensor = tensor.transpose(0, -1)
    if tensor.dim() > 0 and random.random() < 0.3:
        tensor = tensor[..., 1::2] if tensor.shape[-1] > 2 else tensor
    if tensor.dim() > 0 and random.random() < 0.2:
        tensor = tensor[1:]
    if tensor.dim() == 2 and random.random() < 0.2:
        tensor = tensor[:, :1].expand(tensor.shape)
    return tensor


@check
def the_numbers_are_those_of_the_oracle() -> str:
    random = np.random.default_rng(7)
    tensors = [random_tensor(random, dtype) for dtype in DTYPES for _ in range(60)]
    tensors.append(torch.empty(0, 3, device="cuda"))
    tensors.append(torch.randn(3_000_001, device="cuda")[1:])
    tensors.append(torch.randn([3] * 11, device="cuda")[(slice(0, 2),) * 11])  # for torch
    with session(snapshots="stats") as folder, measured_by_torch() as by_torch:
        boundary(Tensors(tensors))
        found = records(folder)
    assert len(found) == len(tensors), len(found)
    for i, tensor in enumerate(tensors):
        wrong = differences(found[f"t{i}"]["stats"], values_of(tensor))
        assert not wrong, (tensor.dtype, tuple(tensor.shape), tensor.stride(), wrong)
    assert len(by_torch) < len(tensors), "these came from torch's operations"
    return f"{len(tensors)} tensors of {len(DTYPES)} types"


@check
def torchs_own_operations_give_the_same() -> str:
    """Without the hook torch's stream is not known, so torch itself has to do the work."""
    random = np.random.default_rng(8)
    kinds = [dtype for dtype in DTYPES if dtype not in UNSIGNED[:3]]  # torch cannot count those
    tensors = [random_tensor(random, dtype) for dtype in kinds for _ in range(12)]
    with session((), snapshots="full") as folder:
        boundary(Tensors(tensors))
        found = records(folder)
    for i, tensor in enumerate(tensors):
        wrong = differences(found[f"t{i}"]["stats"], values_of(tensor))
        assert not wrong, (tensor.dtype, tuple(tensor.shape), wrong)
    files = {record["blob_uri"] for record in found.values()}
    assert len(files) == 1 and None not in files, files
    return f"{len(tensors)} tensors, and their file"


@check
def nothing_waits_for_the_device() -> str:
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(20))).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    with session(snapshots="stats"):
        boundary(model)
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)
        start = time.perf_counter()
        boundary(model)
        took = time.perf_counter() - start
        busy = not torch.cuda.current_stream().query()
        torch.cuda.synchronize()
    assert busy, "the device was idle already"
    assert took < 0.05, f"{took:.3f} s"
    return f"{took * 1e3:.2f} ms while the device was busy"


@check
def the_frameworks_allocator_is_left_alone() -> str:
    model = nn.Linear(2048, 2048).cuda()
    model(torch.randn(4, 2048, device="cuda")).sum().backward()
    with session(snapshots="stats"):
        boundary(model)
        before = torch.cuda.memory_stats()
        for _ in range(5):
            boundary(model)
        after = torch.cuda.memory_stats()
    key = "allocation.all.allocated"
    assert before[key] == after[key], (before[key], after[key])
    return "no allocation in 5 snapshots"


def train(model: nn.Module, batches: int, after: Callable[[], None] | None = None) -> list:
    """A loop that drops its gradients after each step. Returns the last ones, as they were."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(batches * 16, 512))
    kept: list[torch.Tensor] = []
    for (x,) in torch.utils.data.DataLoader(data, batch_size=16):
        model(x.cuda()).square().mean().backward()
        kept = [parameter.grad.detach().clone() for parameter in model.parameters()]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # Another tensor gets that memory at once.
        rubbish = [torch.full_like(gradient, 1e9) for gradient in kept]
        del rubbish
    return kept


@check
def gradients_are_those_of_the_last_step() -> str:
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))).cuda()
    with session(snapshots="stats") as folder:
        kept = train(model, 8)
        found = records(folder)
    names = [name for name, _ in model.named_parameters()]
    for name, gradient in zip(names, kept, strict=True):
        record = found[f"{name}.grad"]
        assert record["attrs"]["taken"] == "optimizer_step", record["attrs"]
        wrong = differences(record["stats"], values_of(gradient))
        assert not wrong, (name, wrong)
    for name, parameter in model.named_parameters():
        assert not differences(found[name]["stats"], values_of(parameter)), name
    return f"{len(names)} gradients and weights"


@check
def raw_tensors_are_a_copy_of_their_moment() -> str:
    from safetensors.torch import load_file

    tensors = [torch.randn(1000, 1000, device="cuda") for _ in range(60)]
    tensors += [torch.randn(300, 200, device="cuda").bfloat16().t(), torch.randn(5)]
    model = Tensors(tensors)
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    with session(snapshots="full") as folder:
        torch.cuda._sleep(SLEEP_CYCLES // 4)
        boundary(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(float("nan"))
        found = records(folder)
        paths = {record["blob_uri"] for record in found.values()}
        assert len(paths) == 1 and None not in paths, paths
        read = load_file(paths.pop().removeprefix("file://"))
    assert read.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(read[name], tensor.cpu()), name
    return f"{len(read)} tensors, {sum(t.nbytes for t in read.values()) >> 20} MiB"


@check
def the_first_nan_is_named() -> str:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
    with torch.no_grad():
        model[1].weight[3, 3] = float("nan")
    with session(snapshots="stats") as folder:
        boundary(model)
        ci.shutdown()
        marks = [
            mark
            for path in sorted((folder / "spool").glob("*.json"))
            for mark in json.loads(path.read_text())["marks"]
            if mark["name"] == "first_non_finite"
        ]
    assert [mark["value"] for mark in marks] == ["1.weight"], marks
    return marks[0]["value"]


@check
def a_graph_being_captured_stays_whole() -> str:
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    with session(snapshots="stats") as folder:
        boundary(model)
        graph = torch.cuda.CUDAGraph()
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in ci.epochs(range(1)):
                y = model(x)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.allclose(y, model(x), atol=1e-5)
        boundary(model)
        assert records(folder)
    return "captured and replayed"


# -- what it costs --


def seven_billion() -> list[tuple[int, ...]]:
    layer: list[tuple[int, ...]] = [(4096, 4096)] * 4 + [(11008, 4096)] * 3 + [(4096,)] * 2
    return [(32000, 4096), *(layer * 32), (32000, 4096), (4096,)]


def copy_bandwidth() -> float:
    """Bytes read and written in a second."""
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / median(gpu_seconds(lambda: target.copy_(source)) for _ in range(10))


def gpu_seconds(work: Callable[[], object]) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    work()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3


def snapshot_seconds(model: nn.Module, rounds: int) -> tuple[float, float]:
    """The time of one boundary: on the GPU and on the host."""
    host: list[float] = []
    gpu: list[float] = []
    with session(snapshots="stats"):
        ci.watch(model)
        epochs = iter(ci.epochs(range(2 * rounds + 1)))

        def timed() -> None:
            start = time.perf_counter()
            next(epochs)
            host.append(time.perf_counter() - start)

        for _ in range(2 * rounds):
            # Work in front of it, so that the device does not wait for the host to launch.
            torch.cuda._sleep(4_000_000)
            gpu.append(gpu_seconds_behind(timed))
    # The first half only brings memory and caches to the state of a running training.
    return median(gpu[rounds:]), median(host[rounds:])


def gpu_seconds_behind(work: Callable[[], object]) -> float:
    """As gpu_seconds, but the device is not idle before."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    work()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3


def blob_row() -> tuple[str, ...]:
    """Steps while a blob of 1 GB is being written, against steps before and after."""
    weights = [torch.randn(1024, 1024, device="cuda") for _ in range(256)]
    big = Tensors(weights)
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
    x = torch.randn(4096, 2048, device="cuda")

    def step() -> float:
        start = time.perf_counter()
        for _ in range(4):
            model(x).square().mean().backward()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    plain, writing, blocked = [], [], []
    for _ in range(3):
        with session(snapshots="full"):
            for _ in range(60):
                step()
            plain += [step() for _ in range(100)]
            start = time.perf_counter()
            boundary(big)
            blocked.append(time.perf_counter() - start)
            while _core.session.counters()["blob_count"] == 0 and len(writing) < 20_000:
                writing.append(step())
            plain += [step() for _ in range(100)]
    ratio = median(writing) / median(plain) - 1
    return (
        "steps while 1 GB is written",
        f"{100 * ratio:+.2f} % over {len(writing)} steps",
        f"the call {median(blocked) * 1e3:.1f} ms",
        "<= 3 %",
        "-",
        "ok" if ratio <= 0.03 else "MISSED",
    )


def table() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("what", "GPU", "host", "budget", "reference", "verdict")]
    model = Tensors([torch.randn(shape, device="cuda") for shape in resnet50_shapes()])
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    gpu, host = snapshot_seconds(model, 150)
    rows.append(
        (
            "ResNet-50, weights and gradients",
            f"{gpu * 1e3:.3f} ms",
            f"{host * 1e3:.3f} ms",
            "<= 1 ms GPU, 0.5 ms host",
            "65 ms, weights alone",
            "ok" if gpu <= 1e-3 and host <= 0.5e-3 else "MISSED",
        )
    )
    del model
    copied = copy_bandwidth()
    shapes = seven_billion()
    empty = (torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes)
    model = Tensors([tensor.normal_(0, 0.02) for tensor in empty])
    size = sum(parameter.nbytes for parameter in model.parameters())
    gpu, host = snapshot_seconds(model, 20)
    share = 2 * size / gpu / copied
    rows.append(
        (
            f"{size / 2e9:.2f} billion bfloat16",
            f"{gpu * 1e3:.2f} ms, {100 * share:.0f} % of the copy's {copied / 1e12:.2f} TB/s",
            f"{host * 1e3:.3f} ms",
            ">= 60 %, <= 10 ms",
            "-",
            "ok" if share >= 0.6 and gpu <= 10e-3 else "MISSED",
        )
    )
    del model
    torch.cuda.empty_cache()
    rows.append(blob_row())
    return rows


def check_all() -> int:
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            print(f"ok      {name}: {function()}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}")
            traceback.print_exc()
        finally:
            ci.shutdown()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks of snapshots passed")
    return 1 if failed else 0


def print_table() -> int:
    rows = table()
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(print_table() if sys.argv[1:] == ["table"] else check_all())
