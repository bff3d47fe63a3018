"""What a session was asked to do."""

from __future__ import annotations

from sonde import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from sonde.face import Face

    T = TypeVar("T")


class Option:
    """A row of the table below."""

    __slots__ = ("check", "default", "for_engine")

    def __init__(
        self, default: object, check: Callable[[str, object], object], for_engine: bool
    ) -> None:
        self.default = default
        self.check = check  # (what the API calls the option, value) -> the value to use
        self.for_engine = for_engine  # handed over as it is, under the same name


def _option(default: object, check: Callable[[str, object], T], *, for_engine: bool = False) -> T:
    """For a type checker this is a value that has been checked."""
    return Option(default, check, for_engine)  # type: ignore[return-value]


class Request:
    """The options of a session. Every value is checked, and nothing is done yet.

    ``wanted`` has any of these options; None stands for the default. Messages use the names that
    ``face`` has for them.
    """

    frameworks = _option(None, options.check_frameworks)
    hook_options = _option(None, options.check_hook_options)
    snapshots = _option("stats", options.check_snapshots)
    sample_rate = _option(0.01, options.check_sample_rate)
    flush_interval = _option(1.0, options.check_flush_interval, for_engine=True)
    output = _option(None, options.check_output)
    directory = _option(None, options.check_directory)  # the default is the face's
    spool_max_bytes = _option(1_000_000_000, options.check_bytes, for_engine=True)
    trace_max_spans = _option(100_000, options.check_count, for_engine=True)

    def __init__(self, face: Face, wanted: Mapping[str, object]) -> None:
        if unknown := wanted.keys() - OPTIONS.keys():
            raise TypeError(f"a session has no option {', '.join(sorted(unknown))}")
        for name, option in OPTIONS.items():
            value = wanted.get(name)
            if value is None:
                value = face.directory if name == "directory" else option.default
            setattr(self, name, option.check(face.option(name), value))

    def for_engine(self) -> dict[str, object]:
        """The options that the engine takes as they are."""
        return {name: getattr(self, name) for name, option in OPTIONS.items() if option.for_engine}

    def output_dir(self) -> str | None:
        """Absolute, so that a later chdir changes nothing; None when nothing is to be on disk.

        Raises OSError or UnicodeError for a name that cannot be made absolute or be written down.
        """
        if "spool" not in self.output:
            return None
        import os

        name = os.path.abspath(self.directory)  # noqa: PTH100
        name.encode()
        return name


OPTIONS = {name: each for name, each in vars(Request).items() if isinstance(each, Option)}
