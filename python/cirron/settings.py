"""Settings of an instance: argument > environment > ~/.cirron/config.toml > default, resolved once.

A value from the environment or the file that a session would refuse is passed over, and the layer
below applies; arguments are taken as they are, and judged when a session starts.
"""

from __future__ import annotations

import os

from sonde.options import SNAPSHOT_MODES, check_flush_interval, check_sample_rate
from sonde.request import DEFAULTS as SESSION

from cirron.face import CirronFace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULTS: dict[str, object] = {
    "api_key": None,
    "api_endpoint": "https://api.cirron.com",
    "workspace_id": None,
    "output_dir": CirronFace.directory,
    "snapshots": SESSION["snapshots"],
    "sample_rate": SESSION["sample_rate"],
    "flush_interval": SESSION["flush_interval"],
    "spool_max_bytes": SESSION["spool_max_bytes"],
    "ingest_path": "/api/traces",
    "load_warn_bytes": 1_000_000_000,
    "load_max_bytes": 10_000_000_000,
    # Only an argument sets these two.
    "output": None,
    "trace_buffer_max_spans": None,
}


def _text(raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw else None


def _mode(raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw in SNAPSHOT_MODES else None


def _real(check: Callable[[str, object], float]) -> Callable[[object], float | None]:
    """``check`` raises ValueError for a number that a session refuses."""

    def coerce(raw: object) -> float | None:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            return None
        try:
            check("", float(raw))
            return float(raw)
        except (ValueError, OverflowError):
            return None

    return coerce


def _whole(raw: object) -> int | None:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        return None
    try:
        return int(raw)
    except ValueError:
        return None


COERCIONS: dict[str, Callable[[object], object]] = {
    "api_key": _text,
    "api_endpoint": _text,
    "workspace_id": _text,
    "output_dir": _text,
    "snapshots": _mode,
    "sample_rate": _real(check_sample_rate),
    "flush_interval": _real(check_flush_interval),
    "spool_max_bytes": _whole,
    "ingest_path": _text,
    "load_warn_bytes": _whole,
    "load_max_bytes": _whole,
}


def resolve(arguments: Mapping[str, object]) -> dict[str, object]:
    """The value of every setting. An argument that is None counts as not given."""
    values = dict(DEFAULTS)
    from_file, variable = read_home_file(), CirronFace().variable
    for field, coerce in COERCIONS.items():
        for raw in (from_file.get(field), os.environ.get(variable(field))):
            value = coerce(raw)
            if value is not None:
                values[field] = value
    values.update((field, value) for field, value in arguments.items() if value is not None)
    return values


def read_home_file() -> dict[str, object]:
    """Table ``[default]`` of ~/.cirron/config.toml; empty if there is none or it cannot be read."""
    # With pathlib the first profile() of a process would take 2 ms longer.
    home = os.path.expanduser("~")  # noqa: PTH111
    try:
        with open(f"{home}/.cirron/config.toml", "rb") as file:  # noqa: PTH123
            data = file.read()
    except (OSError, ValueError):  # ValueError: a home directory that cannot be a path
        return {}
    import tomllib

    try:
        table = tomllib.loads(data.decode()).get("default")
    except ValueError:  # not UTF-8, not TOML
        return {}
    return table if isinstance(table, dict) else {}
