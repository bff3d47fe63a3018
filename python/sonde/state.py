"""What an API can know about the session it has started."""

from __future__ import annotations

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sonde.hooks import Hook

# The value of a counter where there was no session, by its type; a path is None.
_NOTHING: dict[type, object] = {int: 0, dict: {}}


class State:
    """The engine's counters, and what the session was opened with. It does not change later.

    Each API says in its own form what of this it shows.
    """

    __slots__ = ("counters", "hooks", "live", "platform", "spool_dir", "transport")

    def __init__(
        self,
        counters: dict[str, Any] | None = None,
        *,
        live: bool = False,
        spool_dir: str | None = None,
        transport: str | None = None,
        hooks: list[Hook] | None = None,
        platform: Mapping[str, str] | None = None,
    ) -> None:
        """``counters`` are the last ones of a session that has ended; None: there was none."""
        self.live = live  # the session records for this API
        if live:
            self.counters = _core.session.counters()
        else:
            found = nothing() if counters is None else dict(counters)
            self.counters = found | {"flush_mode": "stopped"}
        self.spool_dir = spool_dir
        self.transport = transport
        self.hooks = list(hooks or ())  # in the order of their installation
        self.platform = dict(platform or {})  # the ids that the platform gave the run


def nothing() -> dict[str, Any]:
    """The counters where there was no session."""
    return {key: _NOTHING.get(type(value)) for key, value in _core.session.counters().items()}
