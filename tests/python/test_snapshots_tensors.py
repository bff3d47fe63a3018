"""Tensors that are not plain float32: each has a defined result."""

import cirron as ci
import numpy as np
import pytest
from child_process import run_python
from snapshot_records import records, same

torch = pytest.importorskip("torch")

from sonde import _testing  # noqa: E402
from sonde.snapshots import fallback  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def session(fresh_process):
    torch.manual_seed(0)
    return ci.profile(frameworks=["torch"], snapshots="full", flush_interval=3600)


class Holder:
    def __init__(self, **tensors):
        self.tensors = tensors

    def named_parameters(self):
        return self.tensors.items()


@pytest.fixture
def record(spool_dir):
    """The record of one tensor."""

    def run(tensor, model=None):
        holder = model or Holder(it=tensor)
        ci.watch(holder)
        with ci.scope("epoch"):
            pass
        (epoch,) = records(spool_dir)
        (found,) = epoch.values()
        return found

    return run


def test_sparse_coo(record):
    tensor = torch.sparse_coo_tensor([[0, 0, 3]], [1.0, 2.0, 4.0], (5,))
    found = record(tensor)
    assert found["attrs"] == {"layout": "sparse_coo", "stored": 2}
    assert found["shape"] == [5]
    assert same(found, torch.tensor([3.0, 4.0]))
    assert found["blob_uri"] is None
    assert found["mode"] == "stats"


def test_sparse_csr(record):
    tensor = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr()
    found = record(tensor)
    assert found["attrs"] == {"layout": "sparse_csr", "stored": 2}
    assert same(found, torch.tensor([2.0, 3.0]))


def test_meta(record):
    found = record(torch.empty(3, 4, device="meta"))
    assert found["stats"] is None
    assert found["attrs"] == {"unavailable": "meta"}
    assert (found["shape"], found["dtype"]) == ([3, 4], "float32")


def test_offloaded_by_accelerate(record):
    accelerate = pytest.importorskip("accelerate")
    model = nn.Linear(2, 2, bias=False)
    accelerate.cpu_offload(model, execution_device="cpu")
    found = record(None, model)
    assert found["stats"] is None
    assert found["attrs"] == {"unavailable": "offloaded"}


def test_not_initialised_yet(record):
    model = nn.LazyLinear(3, bias=False)
    found = record(None, model)
    assert found["stats"] is None
    assert found["attrs"] == {"unavailable": "uninitialized"}


def test_fake(record):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        tensor = mode.from_tensor(torch.ones(3))
    found = record(tensor)
    assert found["stats"] is None
    assert found["attrs"] == {"unavailable": "fake"}


def test_quantised(record):
    tensor = torch.quantize_per_tensor(torch.tensor([0.0, 0.5, 1.0]), 0.25, 2, torch.quint8)
    found = record(tensor)
    assert found["attrs"] == {"quantized": True}
    assert found["dtype"] == "quint8"
    assert same(found, tensor.dequantize())


def test_complex(record):
    tensor = torch.tensor([1 + 2j, -3 - 4j])
    found = record(tensor)
    assert (found["shape"], found["dtype"]) == ([2], "complex64")
    assert same(found, torch.view_as_real(tensor))
    assert found["mode"] == "full"


def test_conjugate_and_negative_views(record):
    tensor = torch.tensor([1 + 2j, -3 - 4j]).conj().imag
    found = record(tensor)
    assert same(found, torch.tensor([-2.0, 4.0]))


def test_a_view_with_gaps(record):
    tensor = torch.arange(60.0).reshape(3, 4, 5).permute(2, 0, 1)[1:, :, ::2]
    assert same(record(tensor), tensor)


@pytest.mark.parametrize("tensor", [torch.empty(0, 3), torch.tensor(2.5), torch.tensor([True])])
def test_empty_scalar_and_bool(record, tensor):
    found = record(tensor)
    assert found["shape"] == list(tensor.shape)
    assert sum(found["stats"]["histogram"]["counts"]) == tensor.numel()


def test_a_subclass_that_is_plain_memory(record):
    class Own(torch.Tensor):
        pass

    tensor = torch.arange(4.0).as_subclass(Own)
    found = record(tensor)
    assert same(found, torch.arange(4.0))
    assert found["attrs"] == {}
    assert found["mode"] == "full"


def test_a_subclass_without_memory(record):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.detach.default:
                return cls(args[0].inner)
            raise NotImplementedError

    found = record(Wrapper(torch.ones(2, 2)))
    assert found["stats"] is None
    assert "unavailable" in found["attrs"]


def test_numpy_arrays(record):
    found = record(np.arange(6, dtype="int16").reshape(2, 3)[:, ::2])
    assert (found["shape"], found["dtype"]) == ([2, 2], "int16")
    assert found["stats"]["max"] == 5.0


def test_something_that_is_no_tensor(record):
    found = record("text")
    assert found["stats"] is None
    assert "unavailable" in found["attrs"]


def test_tied_parameters_appear_once(spool_dir):
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    model["b"].weight = model["a"].weight
    ci.watch(model)
    with ci.scope("epoch"):
        pass
    (epoch,) = records(spool_dir)
    assert list(epoch) == ["a.weight"]


# -- what is measured by operations of torch --

VALUES = {
    "normal": torch.randn(1000),
    "small": torch.tensor([1.0, 2.0, 4.0]),
    "constant": torch.full((40,), 1e20),
    "zero": torch.zeros(3, 3),
    "not finite": torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -2.0, 3.0]),
    "only nan": torch.full((5,), float("nan")),
    "empty": torch.empty(0),
    "scalar": torch.tensor(-0.5),
    "double": torch.randn(500, dtype=torch.float64) * 1e-3,
    "huge": torch.tensor([-1.7e308, 1.7e308, 0.0, 5e307], dtype=torch.float64),
    "half": torch.randn(1000).half() * 1000,
    "bfloat16": torch.randn(1000).bfloat16(),
    "float8": torch.randn(100).to(torch.float8_e4m3fn),
    "int8": torch.arange(-100, 100, dtype=torch.int8),
    "bool": torch.tensor([True, False, True]),
    "complex": torch.randn(50, dtype=torch.complex64),
    "strided": torch.randn(40, 30).t()[::3],
}


@pytest.mark.parametrize("name", VALUES)
def test_the_same_numbers_as_from_the_kernels(name):
    tensor = VALUES[name]
    (numbers,) = fallback.measure([tensor])
    (expected,) = _testing.measure_tensors([tensor])
    mean, std, low, high, norm, count, nan, inf, zero, minus_inf, counts = numbers
    assert (low, high) == (expected["min"], expected["max"])
    kinds = ("nan", "inf", "zero", "minus_inf")
    assert (nan, inf, zero, minus_inf) == tuple(expected[f"{k}_count"] for k in kinds)
    assert counts == list(expected["counts"])
    assert count == sum(counts)
    if name != "huge":  # its sums do not fit into a float64 in either case
        assert mean == pytest.approx(expected["mean"], rel=1e-12, abs=1e-300)
        assert std == pytest.approx(expected["std"], rel=1e-9, abs=1e-300)
        assert norm == pytest.approx(expected["norm"], rel=1e-12, abs=1e-300)


def test_large_tensors_go_in_pieces(monkeypatch):
    monkeypatch.setattr(fallback, "CHUNK", 64)
    tensor = torch.randn(1000)
    assert fallback.measure([tensor])[0][5:] == (
        1000,
        0,
        0,
        0,
        0,
        _testing.measure_tensors([tensor])[0]["counts"],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_squares_that_do_not_fit_into_float32(dtype):
    # On MPS there is no float64.
    tensor = torch.tensor([1e30, -1e30, 3e30, 0.0], dtype=dtype)
    reals, _ = fallback._measure(torch, tensor, torch.float32)
    expected, _ = fallback._measure(torch, tensor, torch.float64)
    assert reals.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert reals.isfinite().all()


def test_several_at_once():
    found = fallback.measure([torch.ones(3), torch.zeros(2), torch.arange(5)])
    assert [each[5] for each in found] == [3, 2, 5]
    assert fallback.measure([]) == []


SWAPPING = """
import threading, torch
import cirron as ci
ci.profile(output="none", frameworks=["torch"])
model = torch.nn.Linear(3000, 3000)
ci.watch(model)
over = threading.Event()
def swap():
    while not over.is_set():
        model.weight.data = torch.randn(3000, 3000)  # what it had goes back to the system
thread = threading.Thread(target=swap)
thread.start()
for _ in ci.epochs(range(60)):
    pass
over.set()
thread.join()
print("alive")
"""


def test_a_thread_gives_a_parameter_other_memory_while_it_is_measured():
    assert run_python(SWAPPING).stdout == "alive\n"
