"""Where the compiler for GPU code lies: it comes with the frameworks' own packages."""

from __future__ import annotations

import sys
from pathlib import Path


def nvrtc_paths() -> list[str]:
    """Every NVRTC that can be imported from, the newest first."""
    found: list[Path] = []
    for folder in sys.path:
        # nvidia/cu13/lib since CUDA 13, nvidia/cuda_nvrtc/lib before; torch/lib in some builds.
        for place in ("nvidia/*/lib", "torch/lib"):
            found += Path(folder).glob(f"{place}/libnvrtc*.so*")
    found = [path for path in found if "builtins" not in path.name]
    return [str(path) for path in sorted(found, key=lambda path: path.name, reverse=True)]
