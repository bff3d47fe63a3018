"""Checks on what profile() is given; pure, so that a bad value leaves nothing behind."""

from __future__ import annotations

from sonde import face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

SNAPSHOT_MODES = ("stats", "sampled", "full", "off")
OUTPUTS = ("spool", "log", "stdout", "none")
LINE_OUTPUTS = ("log", "stdout")
LEVELS = ("epoch", "step", "all")

# The longest interval handed to the engine: anything above is "only when asked".
MAX_FLUSH_INTERVAL = 365 * 86400.0


def check_output(output: object) -> tuple[str, ...]:
    """The sinks, in order, each once; empty means none. ``none`` ends the list where it stands."""
    if output is None:
        return ("spool",)
    if isinstance(output, str):
        names: object = (output,)
    else:
        names = output
    try:
        items = iter(names)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(
            f"output must be a string or a list of strings, not {type(output).__name__}"
        ) from None
    sinks: dict[str, str] = {}
    for given in items:
        if not isinstance(given, str):
            raise ValueError(
                f"output entries must be strings, got {given!r}; use {_choices(OUTPUTS)}"
            )
        name = split_output(given)[0]
        if name == "none":
            return ()
        if sinks.setdefault(name, given) != given:
            raise ValueError(f"output has {name!r} twice: {sinks[name]!r} and {given!r}; keep one")
    return tuple(sinks.values())


def split_output(given: str) -> tuple[str, str, str | None]:
    """Sink, level of its lines, glob for their names.

    ``"stdout"``, ``"stdout:epoch"``, ``"stdout:name=val*"``, ``"stdout:all,name=forward"``. Who
    asks for a name sees it on every level.
    """
    name, colon, rest = given.partition(":")
    if name not in OUTPUTS:
        raise ValueError(f"output {given!r} is not valid; use {_choices(OUTPUTS)}")
    if not colon:
        return name, "step", None
    if not rest.startswith("name="):
        level, comma, rest = rest.partition(",")
    else:
        level, comma = "all", ","
    glob = rest.removeprefix("name=")
    understood = level in LEVELS and (bool(glob) and glob != rest if comma else True)
    if name not in LINE_OUTPUTS or not understood:
        raise ValueError(
            f"output {given!r} is not valid; behind 'stdout:' or 'log:' write a level, "
            f"{_choices(LEVELS)}, or name=GLOB, or both: 'stdout:all,name=forward'"
        )
    return name, level, glob if comma else None


def check_snapshots(mode: object) -> str:
    if not isinstance(mode, str) or mode not in SNAPSHOT_MODES:
        raise ValueError(f"snapshots {mode!r} is not valid; use {_choices(SNAPSHOT_MODES)}")
    return mode


def check_sample_rate(rate: object) -> float:
    value = _number("sample_rate", rate)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"sample_rate must lie between 0 and 1, got {rate!r}")
    return value


def check_flush_interval(interval: object) -> float:
    value = _number("flush_interval", interval)
    if not value > 0.0:  # also catches NaN
        raise ValueError(f"flush_interval must be a number of seconds above 0, got {interval!r}")
    return min(value, MAX_FLUSH_INTERVAL)


def check_frameworks(frameworks: object) -> list[str] | None:
    """The names as requested, each once; None means detect, an empty list means none."""
    if frameworks is None:
        return None
    if not isinstance(frameworks, list | tuple):
        raise ValueError(f"frameworks must be a list of names, got {frameworks!r}")
    for name in frameworks:
        if not isinstance(name, str):
            raise ValueError(f"frameworks must be a list of strings, got {name!r} in it")
    return list(dict.fromkeys(frameworks))


def check_flags(config: object) -> Mapping[str, object]:
    """The caller's own feature flags, as they were at this moment."""
    from collections.abc import Mapping

    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a mapping of feature flags, not {type(config).__name__}")
    return dict(config)


# What else has a meaning of its own in config=: a table with the one option of a hook, or of the
# snapshots. Each is a whole number from 1 on.
TABLES: dict[str, str | None] = {
    "torch": "epoch_steps",
    "snapshots": "threads",
    "tensorflow": None,
    "keras": None,
    "transformers": None,
    "lightning": None,
    "jax": None,
}
ARGUMENTS = (
    "config",
    "frameworks",
    "snapshots",
    "sample_rate",
    "flush_interval",
    "enabled",
    "path",
    "output",
)
SETTINGS = ("output_dir", "spool_max_bytes", "trace_buffer_max_spans")


def find_collisions(flags: Mapping[str, object]) -> list[str]:
    """What is to be said of flags that are called like something of ours."""
    found = []
    for name, value in flags.items():
        if value is None:
            continue
        if name in TABLES and isinstance(value, dict):
            found += _misunderstood(name, value)
            continue
        shown = _shown(value)
        if (hint := _instead_of_flag(name, shown)) is not None:
            found.append(
                f"config={{{name!r}: {shown}}} is a flag of your own and sets nothing here: {hint}"
            )
    return found


def is_count(value: object) -> TypeGuard[int]:
    """A whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _misunderstood(name: str, table: dict[object, object]) -> list[str]:
    """What is to be said of a table of options."""
    option = TABLES[name]
    wrong = {key: value for key, value in table.items() if key != option or not is_count(value)}
    if not wrong:
        return []
    instead = f"write {_example(name)} with N from 1 on" if option else "there are no options of it"
    shown = ", ".join(f"{_shown(key)}: {_shown(value)}" for key, value in wrong.items())
    return [f"config={{{name!r}: {{{shown[:60]}}}}} sets nothing: {instead}"]


def _shown(value: object) -> str:
    """Nothing of the program's own code is asked."""
    return repr(value)[:60] if type(value) in (str, int, float, bool) else "..."


def _example(name: str) -> str:
    return f'{{"{name}": {{"{TABLES[name]}": N}}}}'


def _instead_of_flag(name: str, shown: str) -> str | None:
    also = f"; options of it are a table, config={_example(name)}" if TABLES.get(name) else ""
    if name in ARGUMENTS:
        return face.current().argument(name, shown) + also
    if name in SETTINGS:
        return face.current().setting(name, shown)
    if name in TABLES:
        return f"that name is kept for the {name} hook, call your flag something else{also}"
    return None


def check_directory(path: object) -> str:
    """Name of the output directory, ``~`` expanded; the engine finds out whether it can be used."""
    import os

    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"path must be a directory name, not {type(path).__name__}")
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError("path must not contain a null character")
    return os.path.expanduser(name)  # noqa: PTH111  (pathlib would cost 5 ms)


def check_count(name: str, value: object, at_least: int) -> int:
    """A whole number, raised to ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return min(max(value, at_least), 2**63 - 1)


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
