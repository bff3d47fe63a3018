"""Batches as lines on the standard output, which the platform's kernel reads."""

from __future__ import annotations

from json import dumps

from sonde.outlets import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

EVENT_SCHEMA_VERSION = 1


def event_stream(stream: TextIO | None, sdk_version: str) -> Callable[[str], None]:
    """Writes each batch as one line to ``stream``. A thread of the engine calls it."""
    head = (
        f'{{"__cirron_event__":"trace_batch","schema_version":{EVENT_SCHEMA_VERSION},'
        f'"sdk_version":{dumps(sdk_version)},"payload":'
    )

    def send(batch: str) -> None:
        if stream is None:
            raise OSError(
                "this process has no standard output for the event stream; unset CIRRON_RUN_ID and "
                "CIRRON_DEPLOYMENT_ID to do without it"
            )
        write_whole(stream, f"{head}{batch}}}\n", "utf-8")

    return send
