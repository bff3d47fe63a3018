"""The statistics of tensors against an oracle: NumPy in extended precision, counts to the last one.

Counts, edges, smallest and largest value must be equal. The mean may be off by 1e-12 of the largest
magnitude, the norm by 1e-12 of itself, the standard deviation by 1e-12 of itself plus 1e-15 of the
largest magnitude.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sonde import _testing
from tensor_oracle import expected_edges, oracle

torch = pytest.importorskip("torch")

FLOATS = ["float64", "float32", "float16", "bfloat16"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
COMPLEX = ["complex64", "complex128"]
TINIEST = 5e-324  # the smallest double
DTYPES = [*FLOATS, *FLOAT8, *INTEGERS, "bool", *COMPLEX]
# Largest power of two that a value is multiplied with, so that both ends of each type are met.
EXPONENTS = {"float64": 1020, "float32": 126, "bfloat16": 126, "float16": 14}


def as_float64(tensor):
    """Every value of the tensor, complex ones as their parts, in no particular order."""
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype in (torch.uint64, torch.uint32, torch.uint16):
        return tensor.numpy().astype(np.float64).ravel()
    return tensor.detach().to(torch.float64).numpy().ravel()


def check(found, values):
    with np.errstate(over="ignore"):
        wanted = oracle(values)
    exact = ("count", "nan_count", "inf_count", "minus_inf_count", "zero_count")
    for key in (*exact, "min", "max", "edges", "counts"):
        assert found[key] == wanted[key], key
    largest = max(abs(wanted["min"]), abs(wanted["max"]))
    assert found["mean"] == pytest.approx(wanted["mean"], rel=0, abs=1e-12 * largest + TINIEST)
    assert found["norm"] == pytest.approx(wanted["norm"], rel=1e-12, abs=TINIEST)
    slack = 1e-12 * wanted["std"] + 1e-15 * largest + TINIEST
    assert found["std"] == pytest.approx(wanted["std"], rel=0, abs=slack)


def check_tensor(tensor, threads=1):
    (found,) = _testing.measure_tensors([tensor], threads)
    check(found, as_float64(tensor))


# -- tensors of every kind --

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]


def filled(dtype, shape, seed, exponent, offset, specials):
    """Random values of a type, some replaced by special ones."""
    random = np.random.default_rng(seed)
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.from_numpy(np.asarray(random.random(shape) < 0.3))
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        low, high = [(info.min, info.max), (0, 3), (info.max - 20, info.max)][seed % 3]
        return torch.from_numpy(
            np.asarray(random.integers(low, high, shape, dtype=dtype, endpoint=True))
        )
    if dtype in COMPLEX:
        real, imag = (random.standard_normal(shape) for _ in range(2))
        return torch.from_numpy(np.asarray(real + 1j * imag)).to(kind)
    bound = EXPONENTS.get(dtype, 6)
    values = random.standard_normal(shape) + offset
    with np.errstate(over="ignore"):
        values = np.asarray(np.ldexp(values, round(exponent * bound)))
    flat = values.reshape(-1)
    for place, value in specials:
        if flat.size:
            flat[place % flat.size] = value
    return torch.from_numpy(values).to(kind)


def bent(tensor, how):
    """Another layout of the same memory."""
    if tensor.dim() == 0 or how == "plain":
        return tensor
    if how == "transposed":
        return tensor.permute(*reversed(range(tensor.dim())))
    if how == "every second":
        return tensor[..., ::2]
    if how == "inner rows":
        return tensor[:, 1:-1] if tensor.dim() > 1 else tensor[1:]
    if how == "expanded":
        return tensor.unsqueeze(-1).expand(*tensor.shape, 3)
    return tensor.unsqueeze(0).expand(2, *tensor.shape).transpose(0, -1)


LAYOUTS = ["plain", "transposed", "every second", "inner rows", "expanded", "expanded inside"]


@settings(max_examples=600, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.one_of(
        st.lists(st.integers(0, 9), max_size=5).map(tuple),
        st.tuples(st.integers(1, 5000)),
        st.tuples(st.integers(1, 60), st.integers(1, 60)),
    ),
    seed=st.integers(0, 2**32),
    exponent=st.one_of(st.just(0.0), st.floats(-1.06, 1)),
    offset=st.sampled_from([0.0, 0.0, 1.0, 1e3, -1e6]),
    specials=st.lists(st.tuples(st.integers(0, 2**20), st.sampled_from(SPECIAL)), max_size=6),
    layout=st.sampled_from(LAYOUTS),
)
def test_any_tensor(dtype, shape, seed, exponent, offset, specials, layout):
    tensor = filled(dtype, shape, seed, exponent, offset, specials)
    check_tensor(bent(tensor, layout))


@settings(max_examples=300, deadline=None)
@given(
    bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=200),
    dtype=st.sampled_from([*FLOATS, *FLOAT8]),
)
def test_any_bit_pattern(bits, dtype):
    size = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    raw = np.array(bits, dtype=np.uint64).view(np.uint8)
    tensor = torch.from_numpy(raw[: raw.size // size * size].copy())
    check_tensor(tensor.view(getattr(torch, dtype)))


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2),
    repeat=st.integers(1, 40),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_values_at_the_edges_of_bins(values, repeat, dtype):
    """Every edge itself, and its neighbours on both sides, fall into the right bin."""
    edges = np.array(expected_edges(min(values), max(values)), dtype=dtype)
    with np.errstate(over="ignore"):
        near = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
    inside = np.clip(np.concatenate([np.array(values, dtype), *near]), min(values), max(values))
    check_tensor(torch.from_numpy(np.tile(inside, repeat)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [65_537, 300_001])
def test_many_values_on_any_number_of_threads(dtype, size):
    tensor = filled(dtype, (size,), 7, 0.0, 0.5, [(5, math.nan), (size - 1, math.inf)])
    alone, several = (_testing.measure_tensors([tensor] * 5, threads=threads) for threads in (1, 3))
    assert alone == several
    check(alone[2], as_float64(tensor))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_strided_rows_of_a_large_tensor(dtype):
    tensor = filled(dtype, (700, 301), 3, 0.0, 0.0, [(1000, math.nan)])
    for view in (tensor[:, :200], tensor[::3], tensor.t(), tensor[:, ::7], tensor.t()[5:, 1:]):
        check_tensor(view, threads=2)
