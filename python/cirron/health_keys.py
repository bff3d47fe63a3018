"""``health()``: the keys of the Cirron SDK, in its order, and after them the engine's counters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde.state import State


def health(state: State) -> dict[str, Any]:
    """Without a session there are the same keys, with nothing in them."""
    live, counters = state.live, state.counters
    known: dict[str, Any] = {
        "enabled": live,
        "scope_drop_count": counters["scope_drop_count"],
        "mark_drop_count": counters["mark_drop_count"],
        "spool_drop_count": counters["spool_drop_count"],
        "spool_dir": state.spool_dir if live else None,
        "spool_bytes": counters["spool_bytes"],
        "flush_mode": counters["flush_mode"],
        "flush_restart_count": 0,  # the engine never has to start its thread again
        "transport": state.transport if live else None,
        "installed_hooks": [hook.name for hook in state.hooks] if live else [],
        "platform_context": state.platform if live else {},
        "swallowed_error_count": counters["swallowed_error_count"],
        "swallowed_errors": dict(counters["swallowed_errors"]),
    }
    return known | {key: value for key, value in counters.items() if key not in known}
