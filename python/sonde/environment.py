"""What launchers say about this process when a session begins: its ranks."""

from __future__ import annotations

import os


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
    """None if it is not set; 0 if it is no 32-bit integer."""
    text = os.environ.get(variable, "")
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        return 0
    return value if -(2**31) <= value < 2**31 else 0
