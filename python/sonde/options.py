"""Checks on the options of a session. They change nothing, so a bad value leaves nothing behind.

``name`` is what the API calls the option.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

SNAPSHOT_MODES = ("stats", "sampled", "full", "off")
OUTPUTS = ("spool", "log", "stdout", "none")
LINE_OUTPUTS = ("log", "stdout")
LEVELS = ("epoch", "step", "all")

# The longest interval handed to the engine: anything above is "only when asked".
MAX_FLUSH_INTERVAL = 365 * 86400.0


def check_output(name: str, output: object) -> tuple[str, ...]:
    """The sinks, in order, each once; empty means none. ``none`` ends the list where it stands."""
    if output is None:
        return ("spool",)
    if isinstance(output, str):
        entries: object = (output,)
    else:
        entries = output
    try:
        items = iter(entries)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(
            f"{name} must be a string or a list of strings, not {type(output).__name__}"
        ) from None
    sinks: dict[str, str] = {}
    for given in items:
        if not isinstance(given, str):
            raise ValueError(
                f"{name} entries must be strings, got {given!r}; use {_choices(OUTPUTS)}"
            )
        sink = split_output(given, name)[0]
        if sink == "none":
            return ()
        if sinks.setdefault(sink, given) != given:
            raise ValueError(f"{name} has {sink!r} twice: {sinks[sink]!r} and {given!r}; keep one")
    return tuple(sinks.values())


def split_output(given: str, name: str = "output") -> tuple[str, str, str | None]:
    """Sink, level of its lines, glob for their names.

    ``"stdout"``, ``"stdout:epoch"``, ``"stdout:name=val*"``, ``"stdout:all,name=forward"``. A glob
    without a level applies to every level.
    """
    sink, colon, rest = given.partition(":")
    if sink not in OUTPUTS:
        raise ValueError(f"{name} {given!r} is not valid; use {_choices(OUTPUTS)}")
    if not colon:
        return sink, "step", None
    if not rest.startswith("name="):
        level, comma, rest = rest.partition(",")
    else:
        level, comma = "all", ","
    glob = rest.removeprefix("name=")
    understood = level in LEVELS and (bool(glob) and glob != rest if comma else True)
    if sink not in LINE_OUTPUTS or not understood:
        raise ValueError(
            f"{name} {given!r} is not valid; after 'stdout:' or 'log:' write a level, "
            f"{_choices(LEVELS)}, or name=GLOB, or both: 'stdout:all,name=forward'"
        )
    return sink, level, glob if comma else None


def check_snapshots(name: str, mode: object) -> str:
    if not isinstance(mode, str) or mode not in SNAPSHOT_MODES:
        raise ValueError(f"{name} {mode!r} is not valid; use {_choices(SNAPSHOT_MODES)}")
    return mode


def check_sample_rate(name: str, rate: object) -> float:
    value = _number(name, rate)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, got {rate!r}")
    return value


def check_flush_interval(name: str, interval: object) -> float:
    value = _number(name, interval)
    if not value > 0.0:  # also catches NaN
        raise ValueError(f"{name} must be a number of seconds above 0, got {interval!r}")
    return min(value, MAX_FLUSH_INTERVAL)


def check_frameworks(name: str, frameworks: object) -> list[str] | None:
    """The names as requested, each once; None means detect, an empty list means none."""
    if frameworks is None:
        return None
    if not isinstance(frameworks, list | tuple):
        raise ValueError(f"{name} must be a list of names, got {frameworks!r}")
    for framework in frameworks:
        if not isinstance(framework, str):
            raise ValueError(f"{name} must be a list of strings, got {framework!r} in it")
    return list(dict.fromkeys(frameworks))


def is_count(value: object) -> TypeGuard[int]:
    """A whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# Options of the hooks and of the snapshots. A number is a whole number from 1 on; the others switch
# a part of the hook on or off, and all parts are on unless told otherwise.
NUMBERS = {("torch", "epoch_steps"), ("snapshots", "threads")}
PARTS = {("torch", part) for part in ("modules", "backward", "optimizers", "loaders")}


def check_hook_options(name: str, tables: object) -> dict[str, dict[str, object]]:
    """A copy: options by the name of the hook they are for."""
    from collections.abc import Mapping

    if tables is None:
        return {}
    if not isinstance(tables, Mapping) or not all(isinstance(t, Mapping) for t in tables.values()):
        raise TypeError(f"{name} must be a mapping of mappings, got {tables!r}")
    for hook, table in tables.items():
        for option, value in table.items():
            _check_hook_option(f"{name}[{hook!r}][{option!r}]", (hook, option), value)
    return {hook: dict(table) for hook, table in tables.items()}


def _check_hook_option(name: str, key: tuple[str, str], value: object) -> None:
    if key not in NUMBERS | PARTS:
        raise ValueError(f"{name}: no hook has an option of this name")
    if key in NUMBERS and not is_count(value):
        raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
    if key in PARTS and not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_directory(name: str, path: object) -> str:
    """Name of the output directory, ``~`` expanded; the engine finds out whether it can be used."""
    import os

    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"{name} must be a directory name, not {type(path).__name__}")
    directory = os.fsdecode(path)
    if "\0" in directory:
        raise ValueError(f"{name} must not contain a null character")
    return os.path.expanduser(directory)  # noqa: PTH111  (pathlib would cost 5 ms)


def check_count(name: str, value: object) -> int:
    """A whole number, raised to 1."""
    return max(check_bytes(name, value), 1)


def check_bytes(name: str, value: object) -> int:
    """A whole number, raised to 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return min(max(value, 0), 2**63 - 1)


def _number(name: str, value: object) -> float:
    if not isinstance(value, bool | str) and hasattr(value, "__float__"):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"{name} must be a number, got {value!r}")


def _choices(names: tuple[str, ...]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
