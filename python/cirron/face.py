"""What is special about the Cirron API: names, folder, variables, options, advice."""

from __future__ import annotations

from sonde import log
from sonde.face import Face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Key of a message -> what to do. The rest of the message is in the code that notices the trouble.
ADVICE = {
    "spool-cap": "raise spool_max_bytes (CIRRON_SPOOL_MAX_BYTES) or move files away",
    "spans-dropped": "span_drop_count in health() counts them: record less often",
    "marks-dropped": "call profile() first, and if they still come too fast, mark less often: "
    "mark_drop_count in health() counts them",
    "journal-gone": "call shutdown() and then profile() to get a new journal",
    "journal": "free space there, make it writable, or pass profile(path=...)",
    "spool-write": "free space there, make it writable, or pass profile(path=...)",
    "records-lost": "free space there, make it writable, or pass profile(path=...)",
    "blob-nowhere": 'pass profile(path=...) and output="spool"',
    "snapshots-dropped": "snapshot_drop_count in health() counts them: take them less often",
    "blob-size": 'if that is too much, pass snapshots="sampled" with a small sample_rate, or '
    'snapshots="stats"',
    "blob-not-copied": "blob_drop_count in health() counts such snapshots: take raw tensors less "
    "often (sample_rate), or free memory",
    "started-twice": "call shutdown() first to start another",
    "joined": "start Cirron first, or give them to the other API",
    "no-directory": "pass profile(path=...) with an absolute path",
    "unseen-loop": "Write the loop over epochs as 'for epoch in ci.epochs(range(n)):' and the loop "
    "over batches as 'for batch in ci.batches(data):'",
    "no-epoch": "write the loop over epochs as: for epoch in ci.epochs(...)",
    "no-model": "call ci.watch(model)",
}
CALLS = {
    "start": "ci.profile()",
    "frameworks": "profile(frameworks=...)",
    "stop": "ci.shutdown()",
    "watch": "ci.watch",
    "wrap": "ci.wrap",
    "table": 'trace(format="df")',
}


class CirronFace(Face):
    name = "cirron"
    class_prefix = "Cirron"
    directory = "./.cirron/"
    variable_prefix = "CIRRON_"
    platform_ids = ("run_id", "pipeline_id", "deployment_id", "workspace_id")
    file_transport = "FileOnlyTransport"
    option_names = {
        "hook_options": "config",
        "directory": "path",
        "trace_max_spans": "trace_buffer_max_spans",
    }
    advice = ADVICE
    calls = CALLS

    def __init__(self, *, has_api_key: bool = False, flags: object = None) -> None:
        self._has_api_key = has_api_key
        self._flags = flags

    def stream(self, platform: Mapping[str, str]) -> str | None:
        return "EventStreamTransport" if {"run_id", "deployment_id"} & platform.keys() else None

    def transport(
        self, platform: Mapping[str, str], spool_dir: str | None
    ) -> tuple[str, Callable[[str], None] | None]:
        if (stream := self.stream(platform)) is not None:
            import sys

            import sonde

            from cirron.event_stream import event_stream

            return stream, event_stream(sys.stdout, sonde.__version__)
        if self._has_api_key:
            log.warn(
                "ingest",
                "an API key is set, but this version does not send over HTTP: batches stay in "
                f"{spool_dir or 'memory'}; unset {self.variable('api_key')} to silence this",
            )
        return super().transport(platform, spool_dir)

    def session_begins(self) -> None:
        from cirron import settings_file

        settings_file.say_unread()
        if self._flags:
            from cirron.flags import find_collisions

            for collision in find_collisions(self, self._flags):
                log.warn("profiler", collision, self)


# For what is the API's in general. A session has a face of its own, which knows its settings.
FACE = CirronFace()
