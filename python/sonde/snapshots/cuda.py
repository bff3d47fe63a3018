"""Where the compiler for GPU code lies: it comes with the frameworks' own packages."""

from __future__ import annotations

import os
import sys
from glob import glob


def nvrtc_paths() -> list[str]:
    """Every NVRTC that can be imported from, the newest first."""
    found: list[str] = []
    for folder in sys.path:
        # nvidia/cu13/lib since CUDA 13, nvidia/cuda_nvrtc/lib before; torch/lib in some builds.
        for place in ("nvidia/*/lib", "torch/lib"):
            found += glob(os.path.join(folder, place, "libnvrtc*.so*"))
    names = [path for path in found if "builtins" not in os.path.basename(path)]
    return sorted(names, key=os.path.basename, reverse=True)
