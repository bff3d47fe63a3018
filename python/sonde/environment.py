"""What the surroundings say about this process when profile() runs: ranks, platform, device."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

PLATFORM_VARIABLES = {
    "run_id": "CIRRON_RUN_ID",
    "pipeline_id": "CIRRON_PIPELINE_ID",
    "deployment_id": "CIRRON_DEPLOYMENT_ID",
    "workspace_id": "CIRRON_WORKSPACE_ID",
}


def platform_context() -> dict[str, str]:
    """Ids the platform gave this run; what is not set is left out."""
    values = {key: os.environ.get(name, "") for key, name in PLATFORM_VARIABLES.items()}
    return {key: value for key, value in values.items() if value}


class Ranks:
    """Place of this process in a distributed run; ``None`` where the launcher says nothing."""

    __slots__ = ("local_rank", "rank", "world_size")

    def __init__(self) -> None:
        self.local_rank = _integer("LOCAL_RANK")
        self.world_size = _integer("WORLD_SIZE")
        own = _integer("RANK")
        self.rank: int = (self.local_rank if own is None else own) or 0

    def attributes(self) -> dict[str, object]:
        found: dict[str, object] = {"rank": self.rank}
        if self.world_size is not None:
            found["world_size"] = self.world_size
        if self.local_rank is not None:
            found["local_rank"] = self.local_rank
        return found


def _integer(variable: str) -> int | None:
    """None when not set; 0 for what is no 32-bit integer."""
    text = os.environ.get(variable, "")
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        return 0
    return value if -(2**31) <= value < 2**31 else 0


def device_attributes() -> dict[str, object]:
    """Device, number of GPUs and autocast state, as torch sees them if the program has imported it.

    A profiler must not import a framework, nor start a CUDA context behind the program's back (a
    forked child could then not use the GPU): ``device_count`` asks NVML.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return {"device": "cpu"}
    count = 0
    autocast = False
    try:
        if torch.version.cuda is not None or torch.version.hip is not None:
            count = int(torch.cuda.device_count())
        autocast = _autocast_enabled(torch, "cuda" if count else "cpu")
    except Exception:
        # torch half imported, or of a version unlike those we know: say what is certain.
        pass
    found: dict[str, object] = {"device": "cuda" if count else "cpu"}
    if count:
        found["cuda_count"] = count
    found["mixed_precision"] = autocast
    return found


def _autocast_enabled(torch: ModuleType, device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:  # before torch 2.4 it knew only CUDA
        return bool(torch.is_autocast_enabled())
