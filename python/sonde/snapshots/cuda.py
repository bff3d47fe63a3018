"""Where to find NVRTC, the compiler for GPU code: it comes with the packages of frameworks."""

from __future__ import annotations

import sys
from pathlib import Path


def nvrtc_paths(cuda: str) -> list[str]:
    """Every NVRTC on sys.path: that of this CUDA version first, then the newest."""
    own = f".so.{cuda.partition('.')[0]}"
    found: list[Path] = []
    for folder in sys.path:
        # nvidia/cu13/lib since CUDA 13, nvidia/cuda_nvrtc/lib before; torch/lib in some builds.
        for place in ("nvidia/*/lib", "torch/lib"):
            found += Path(folder).glob(f"{place}/libnvrtc*.so*")
    found = [path for path in found if "builtins" not in path.name]
    found.sort(key=lambda path: (path.name.endswith(own), path.name), reverse=True)
    return [str(path) for path in found]
