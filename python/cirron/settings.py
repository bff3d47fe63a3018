"""Settings of an instance: argument > environment > ~/.cirron/config.toml > default, resolved once.

A value from the environment or the file that a session would refuse is passed over, and the layer
below applies; arguments are taken as they are, and judged when a session starts.
"""

from __future__ import annotations

import os

from sonde.options import check_bytes
from sonde.request import OPTIONS

from cirron.face import CirronFace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# Its default, and what makes a value of the environment or the file into one of its own.
Setting = tuple[object, "Callable[[object], object] | None"]


def _text(raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw else None


def _like(default: object, check: Callable[[str, object], object]) -> Setting:
    """``check`` raises ValueError for a value that a session refuses."""
    kind: Any = type(default)
    fitting: dict[object, Any] = {str: str, int: int | str, float: int | float | str}

    def coerce(raw: object) -> object:
        if isinstance(raw, bool) or not isinstance(raw, fitting[kind]):
            return None
        try:
            check("", kind(raw))
            return kind(raw)
        except (ValueError, OverflowError):
            return None

    return default, coerce


def _of_session(name: str) -> Setting:
    """The setting is an option of a session, under the same name."""
    return _like(OPTIONS[name].default, OPTIONS[name].check)


SETTINGS: dict[str, Setting] = {
    "api_key": (None, _text),
    "api_endpoint": ("https://api.cirron.com", _text),
    "workspace_id": (None, _text),
    "output_dir": (CirronFace.directory, _text),
    "snapshots": _of_session("snapshots"),
    "sample_rate": _of_session("sample_rate"),
    "flush_interval": _of_session("flush_interval"),
    "spool_max_bytes": _of_session("spool_max_bytes"),
    "ingest_path": ("/api/traces", _text),
    "load_warn_bytes": _like(1_000_000_000, check_bytes),
    "load_max_bytes": _like(10_000_000_000, check_bytes),
    # Only an argument sets these two.
    "output": (None, None),
    "trace_buffer_max_spans": (None, None),
}


def resolve(arguments: Mapping[str, object]) -> dict[str, object]:
    """The value of every setting. An argument that is None counts as not given."""
    values = {field: default for field, (default, _) in SETTINGS.items()}
    from_file, variable = read_home_file(), CirronFace().variable
    for field, (_, coerce) in SETTINGS.items():
        if coerce is None:
            continue
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
