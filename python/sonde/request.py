"""What profile() was asked to do."""

from __future__ import annotations

from sonde import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TRACE_SPANS = 100_000


class Request:
    """Every value checked, nothing done yet. What ``given`` leaves open comes from ``settings``."""

    __slots__ = (
        "directory",
        "flags",
        "flush_interval",
        "frameworks",
        "sample_rate",
        "settings",
        "sinks",
        "snapshots",
        "spool_max_bytes",
        "trace_max_spans",
    )

    def __init__(self, settings: Mapping[str, object], given: Mapping[str, object]) -> None:
        def pick(name: str) -> object:
            value = given.get(name)
            return settings[name] if value is None else value

        self.flags = options.check_flags(given.get("config"))
        self.frameworks = options.check_frameworks(given.get("frameworks"))
        self.snapshots = options.check_snapshots(pick("snapshots"))
        self.sample_rate = options.check_sample_rate(pick("sample_rate"))
        self.flush_interval = options.check_flush_interval(pick("flush_interval"))
        self.sinks = options.check_output(pick("output"))
        self.directory = options.check_directory(given.get("path") or settings["output_dir"])
        self.spool_max_bytes = options.check_count(
            "spool_max_bytes", settings["spool_max_bytes"], 0
        )
        spans = settings["trace_buffer_max_spans"]
        self.trace_max_spans = options.check_count(
            "trace_buffer_max_spans", DEFAULT_TRACE_SPANS if spans is None else spans, 1
        )
        self.settings = settings

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
