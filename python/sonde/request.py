"""What a session was asked to do."""

from __future__ import annotations

from sonde import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sonde.face import Face

DEFAULTS: dict[str, object] = {
    "frameworks": None,
    "hook_options": None,
    "snapshots": "stats",
    "sample_rate": 0.01,
    "flush_interval": 1.0,
    "output": None,
    "spool_max_bytes": 1_000_000_000,
    "trace_max_spans": 100_000,
}


class Request:
    """The options of a session. Every value is checked, and nothing is done yet.

    ``wanted`` has any of ``DEFAULTS`` and ``directory``; None stands for the default. Messages use
    the names that ``face`` has for the options.
    """

    __slots__ = (
        "directory",
        "flush_interval",
        "frameworks",
        "hook_options",
        "sample_rate",
        "sinks",
        "snapshots",
        "spool_max_bytes",
        "trace_max_spans",
    )

    def __init__(self, face: Face, wanted: Mapping[str, object]) -> None:
        defaults = DEFAULTS | {"directory": face.directory}
        if unknown := wanted.keys() - defaults.keys():
            raise TypeError(f"a session has no option {', '.join(sorted(unknown))}")

        def named(option: str) -> tuple[str, object]:
            value = wanted.get(option)
            return face.option(option), defaults[option] if value is None else value

        self.frameworks = options.check_frameworks(*named("frameworks"))
        self.hook_options = options.check_hook_options(*named("hook_options"))
        self.snapshots = options.check_snapshots(*named("snapshots"))
        self.sample_rate = options.check_sample_rate(*named("sample_rate"))
        self.flush_interval = options.check_flush_interval(*named("flush_interval"))
        self.sinks = options.check_output(*named("output"))
        self.directory = options.check_directory(*named("directory"))
        self.spool_max_bytes = options.check_count(*named("spool_max_bytes"), at_least=0)
        self.trace_max_spans = options.check_count(*named("trace_max_spans"), at_least=1)

    def value(self, option: str) -> object:
        """What an option of ``wanted`` has become."""
        return getattr(self, "sinks" if option == "output" else option)

    def output_dir(self) -> str | None:
        """Absolute, so that a later chdir changes nothing; None when nothing is to be on disk.

        Raises OSError or UnicodeError for a name that cannot be made absolute or be written down.
        """
        if "spool" not in self.sinks:
            return None
        import os

        name = os.path.abspath(self.directory)  # noqa: PTH100
        name.encode()
        return name
