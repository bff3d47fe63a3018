"""``profile(config=...)``: the program's feature flags, among them tables of options for hooks."""

from __future__ import annotations

from sonde.options import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Names that a user may put into ``config`` by mistake: arguments of profile(), and settings that
# only Cirron(...) takes.
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
# Flags that mean something to the profiler: a table with the one option of a hook, or of the
# snapshots. Each option is a whole number from 1 on.
TABLES: dict[str, str | None] = {
    "torch": "epoch_steps",
    "snapshots": "threads",
    "tensorflow": None,
    "keras": None,
    "transformers": None,
    "lightning": None,
    "jax": None,
}


def checked(flags: object) -> Mapping[str, object]:
    """A copy of the program's feature flags."""
    from collections.abc import Mapping

    if flags is None:
        return {}
    if not isinstance(flags, Mapping):
        raise TypeError(f"config must be a mapping of feature flags, not {type(flags).__name__}")
    return dict(flags)


def find_collisions(flags: object) -> list[str]:
    """What to say about flags that have the name of an option of ours."""
    found: list[str] = []
    for name, value in checked(flags).items():
        if value is None:
            continue
        if name in TABLES and isinstance(value, dict):
            found += _misunderstood(name, value)
            continue
        shown = _shown(value)
        if (hint := _instead_of_flag(name, shown)) is not None:
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
    instead = f"write {_example(name)} where N is 1 or more" if option else f"{name} has no options"
    shown = ", ".join(f"{_shown(key)}: {_shown(value)}" for key, value in wrong.items())
    return [f"config={{{name!r}: {{{shown[:60]}}}}} has no effect: {instead}"]


def _shown(value: object) -> str:
    """The value in a message. No code of the program runs for that."""
    return repr(value)[:60] if type(value) in (str, int, float, bool) else "..."


def _example(name: str) -> str:
    return f'{{"{name}": {{"{TABLES[name]}": N}}}}'


def _instead_of_flag(name: str, shown: str) -> str | None:
    also = ""
    if TABLES.get(name):
        also = f"; the options of {name} are a table: config={_example(name)}"
    if name in ARGUMENTS:
        return f"write profile({name}={shown}){also}"
    if name in SETTINGS:
        return f"write Cirron({name}={shown}).profile()"
    if name in TABLES:
        return f"that name is reserved for the {name} hook; call your flag something else{also}"
    return None
