"""``profile(config=...)``: the program's feature flags, among them tables of options for hooks."""

from __future__ import annotations

from sonde.hooks import ALIASES, KNOWN
from sonde.options import NUMBERS, is_count
from sonde.request import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sonde.face import Face

# Settings that only Cirron(...) takes, and not profile().
SETTINGS = {"output_dir", "spool_max_bytes", "trace_buffer_max_spans"}
# Flags that mean something to the profiler: a table with the one option of a hook, or of the
# snapshots. Each option is a whole number from 1 on. A name that stands for another has no table.
TABLES: dict[str, str | None] = {**dict.fromkeys((*KNOWN, *ALIASES)), **dict(NUMBERS)}


def checked(flags: object) -> Mapping[str, object]:
    """A copy of the program's feature flags."""
    from collections.abc import Mapping

    if flags is None:
        return {}
    if not isinstance(flags, Mapping):
        raise TypeError(f"config must be a mapping of feature flags, not {type(flags).__name__}")
    return dict(flags)


def arguments(face: Face) -> set[str]:
    """Names that a user may put into ``config`` by mistake: the arguments of profile()."""
    return {"config", "enabled", *map(face.option, OPTIONS)} - SETTINGS


def find_collisions(face: Face, flags: object) -> list[str]:
    """What to say about flags that have the name of an option of ours."""
    found: list[str] = []
    ours = arguments(face)
    for name, value in checked(flags).items():
        if value is None:
            continue
        if name in TABLES and isinstance(value, dict):
            found += _misunderstood(name, value)
            continue
        shown = _shown(value)
        if (hint := _instead_of_flag(name, shown, ours)) is not None:
            found.append(
                f"config={{{name!r}: {shown}}} is a flag of your own and does "
                f"not configure the profiler: {hint}"
            )
    return found


def hook_options_in(flags: object) -> dict[str, dict[str, object]]:
    """The options among these flags that are understood. ``find_collisions`` is about the rest."""
    from collections.abc import Mapping

    found: dict[str, dict[str, object]] = {}
    if isinstance(flags, Mapping):
        for name, option in TABLES.items():
            table = flags.get(name)
            if option is not None and isinstance(table, dict) and is_count(table.get(option)):
                found[name] = {option: table[option]}
    return found


def _misunderstood(name: str, table: dict[object, object]) -> list[str]:
    """What to say about the members of a table that are not understood."""
    option = TABLES[name]
    wrong = {key: value for key, value in table.items() if key != option or not is_count(value)}
    if not wrong:
        return []
    called = ALIASES.get(name, name)
    instead = f"{name} has no options"
    if TABLES[called]:
        instead = f"write {_example(called)} where N is 1 or more"
    shown = ", ".join(f"{_shown(key)}: {_shown(value)}" for key, value in wrong.items())
    return [f"config={{{name!r}: {{{shown[:60]}}}}} has no effect: {instead}"]


def _shown(value: object) -> str:
    """The value in a message. No code of the program runs for that."""
    return repr(value)[:60] if type(value) in (str, int, float, bool) else "..."


def _example(name: str) -> str:
    return f'{{"{name}": {{"{TABLES[name]}": N}}}}'


def _instead_of_flag(name: str, shown: str, arguments: set[str]) -> str | None:
    also = ""
    if TABLES.get(name):
        also = f"; the options of {name} are a table: config={_example(name)}"
    if name in arguments:
        return f"write profile({name}={shown}){also}"
    if name in SETTINGS:
        return f"write Cirron({name}={shown}).profile()"
    if name in TABLES:
        return f"that name is reserved for the {name} hook; call your flag something else{also}"
    return None
