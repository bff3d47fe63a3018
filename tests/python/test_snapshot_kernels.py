"""The GPU's kernels are text until they run: here they are compiled for every kind of GPU."""

from __future__ import annotations

import cirron as ci
import pytest
from sonde import _core, _testing
from sonde.snapshots.cuda import nvrtc_paths


@pytest.fixture
def nvrtc():
    paths = nvrtc_paths("13.0")
    assert paths, "nvidia-cuda-nvrtc is in tools/requirements.txt"
    _core.device.want_kernels(paths)
    yield paths
    _core.device.want_kernels(None)


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)])
def test_kernels_compile(nvrtc, capability):
    image = _testing.compile_kernels(nvrtc, *capability)
    assert image.startswith(b"\x7fELF")
    for kernel in (b"measure_moments", b"combine_moments", b"measure_histogram"):
        assert kernel in image


def test_a_gpu_newer_than_the_compiler_gets_code_that_its_driver_translates(nvrtc):
    assert b".version" in _testing.compile_kernels(nvrtc, 99, 0)[:2000]


def test_a_gpu_that_is_too_old_is_refused(nvrtc):
    with pytest.raises(ValueError, match="knows no code"):
        _testing.compile_kernels(nvrtc, 2, 0)


def test_without_a_driver_there_is_a_reason(nvrtc):
    assert _testing.await_kernels(0) == "no CUDA driver in this process"


def test_a_torch_that_knows_cuda_is_hooked(monkeypatch, tmp_path):
    """This torch has no CUDA; it only claims to."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    told = []
    monkeypatch.setattr(_core.device, "want_kernels", told.append)
    profiler = ci.profile(path=str(tmp_path), frameworks=["torch"])
    assert [hook.active for hook in profiler.hook_handles] == [True]
    ci.shutdown()
    assert told == [nvrtc_paths("13.0"), None]
