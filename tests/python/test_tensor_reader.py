"""Which tensors of which framework can be read as memory, and what the others are called."""

import array
import gc
import weakref

import numpy as np
import pytest
from child_process import run_python
from sonde import _testing

torch = pytest.importorskip("torch")


def read(tensor):
    found = _testing.read_tensor(tensor)
    return found["readable"], found["dtype"], found["shape"]


def values(tensor):
    """Smallest, largest and number of values."""
    (found,) = _testing.measure_tensors([tensor])
    return found["min"], found["max"], found["count"]


def test_a_parameter():
    parameter = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4))
    assert read(parameter) == ("yes", "float32", [3, 4])
    assert _testing.read_tensor(parameter)["device"] == (1, 0)
    assert values(parameter) == (0, 11, 12)


@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint64",
        "uint32",
        "uint16",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    ],
)
def test_every_dtype_of_torch(dtype):
    tensor = torch.tensor([0.0, 1.0]).to(getattr(torch, dtype))
    assert read(tensor) == ("yes", dtype, [2])
    assert values(tensor) == (0, 1, 4 if tensor.is_complex() else 2)


def test_complex_numbers_are_their_parts():
    tensor = torch.tensor([[1 + 2j, 3 - 4j]])
    assert read(tensor) == ("yes", "complex64", [1, 2])
    assert values(tensor) == (-4, 3, 4)
    assert values(tensor.t()) == (-4, 3, 4)
    assert values(tensor.conj()) == (-2, 4, 4)  # a view whose memory is not what it means
    assert values(torch.imag(tensor.conj())) == (-2, 4, 2)


def test_views_of_torch():
    tensor = torch.arange(20.0).reshape(4, 5)
    assert values(tensor[1:3, ::2]) == (5, 14, 6)
    assert values(tensor.t()[2:]) == (2, 19, 12)
    assert values(tensor[0, 0].expand(1000, 1000)) == (0, 0, 1_000_000)
    assert values(tensor[2, 3]) == (13, 13, 1)
    assert values(torch.empty(3, 0)) == (0, 0, 0)
    assert read(torch.zeros((1,) * 30)) == ("yes", "float32", [1] * 30)


@pytest.mark.filterwarnings("ignore")
def test_torch_tensors_without_plain_memory():
    assert read(torch.empty(3, 4, device="meta")) == ("meta", "float32", [3, 4])
    assert read(torch.eye(3).to_sparse()) == ("sparse", "float32", [3, 3])
    assert read(torch.eye(4).to_sparse_csr()) == ("sparse", "float32", [4, 4])
    quantised = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    assert read(quantised) == ("quantised", "qint8", [3])
    assert _testing.measure_tensors([quantised, torch.ones(2)])[0] is None
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, 3)
    assert read(fake)[0] in ("unknown", "meta")


def test_numpy():
    assert read(np.zeros((2, 3), np.float32)) == ("yes", "float32", [2, 3])
    assert values(np.arange(10)[::-2]) == (1, 9, 5)
    assert values(np.array(3.5)) == (3.5, 3.5, 1)
    assert values(np.arange(6, dtype=">f4")) == (0, 5, 6)  # of foreign byte order
    assert values(np.arange(6, dtype=">i2")) == (0, 5, 6)
    records = np.zeros(4, dtype=[("flag", "u1"), ("weight", "f4")])
    records["weight"] = [1, 2, 3, 4]
    assert values(records["weight"]) == (1, 4, 4)  # five bytes apart
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    assert values(fixed) == (0, 3, 4)
    assert read(np.array(["a"]))[0] == "unknown"
    assert read(np.array([object()])) == ("unknown", "object", [1])


def test_the_types_that_numpy_borrows():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        tensor = np.arange(8).reshape(2, 4).astype(getattr(ml_dtypes, name))[:, ::2]
        assert read(tensor) == ("yes", name, [2, 2])
        assert values(tensor) == (0, 6, 4)


def test_other_buffers():
    assert values(array.array("d", [1.0, 2.0])) == (1, 2, 2)
    assert values(memoryview(np.arange(4, dtype=np.int16))) == (0, 3, 4)


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    for dtype in ("float32", "bfloat16", "float8_e4m3fn", "int32", "bool"):
        tensor = jnp.asarray([[0, 1], [1, 0]], dtype=dtype)
        assert read(tensor) == ("yes", dtype, [2, 2])
        assert values(tensor) == (0, 1, 4)


def test_tensorflow_and_keras():
    pytest.importorskip("tensorflow")
    run_python(
        """
        import keras, numpy, tensorflow as tf
        from sonde import _testing

        for dtype in ("float32", "bfloat16", "float16", "int64"):
            for tensor in (
                tf.constant([1, 2, 3], dtype),
                tf.Variable([1, 2, 3], dtype=dtype),
                keras.Variable(numpy.array([1, 2, 3]), dtype=dtype),
            ):
                found = _testing.read_tensor(tensor)
                assert (found["dtype"], found["shape"]) == (dtype, [3]), found
                (found,) = _testing.measure_tensors([tensor])
                assert (found["min"], found["max"], found["count"]) == (1, 3, 3), found
        """,
        env={"KERAS_BACKEND": "tensorflow"},
    )


def test_keras_on_torch():
    pytest.importorskip("keras")
    run_python(
        """
        import keras, numpy
        from sonde import _testing

        variable = keras.Variable(numpy.array([[1, 2, 3]]), dtype="bfloat16")
        found = _testing.read_tensor(variable)
        assert (found["readable"], found["dtype"], found["shape"]) == ("yes", "bfloat16", [1, 3])
        assert _testing.measure_tensors([variable])[0]["max"] == 3
        """,
        env={"KERAS_BACKEND": "torch"},
    )


class Hostile:
    """Raises at every access."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


class Lying:
    """Looks like a tensor, but its address is not that of any memory."""

    dtype = "float32"
    shape = (1, "two")

    def __dlpack_device__(self):
        return (2, 3)


class Broken(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("no")


def test_no_exception_leaves_the_reader():
    broken = torch.ones(2).as_subclass(Broken)
    for thing in (None, 3, "text", [1.0], {}, object(), Hostile(), Hostile, float, broken):
        assert read(thing) == ("unknown", "unknown", [])
    found = _testing.read_tensor(Lying())
    assert (found["readable"], found["device"]) == ("elsewhere", (2, 3))
    assert _testing.measure_tensors([None, Hostile(), torch.ones(2)])[:2] == [None, None]


def test_nothing_is_kept_after_measuring():
    tensor = torch.ones(3)
    seen = weakref.ref(tensor)
    _testing.measure_tensors([tensor, np.ones(3)])
    del tensor
    gc.collect()
    assert seen() is None
    growing = bytearray(8)
    _testing.measure_tensors([growing])
    growing.extend(b"x")  # refused while a buffer is held
