"""Where batches go that leave through Python: live lines and the platform's event stream.

The engine calls these on its drain thread; what they raise is logged once and goes no further.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from sonde import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    LineOutlet = Callable[[list[str]], None]

EVENT_SCHEMA_VERSION = 1


def log_lines(lines: list[str]) -> None:
    """One INFO record per closed span on the logger ``cirron.trace``."""
    import logging

    logger = logging.getLogger("cirron.trace")
    if logger.isEnabledFor(logging.INFO):

        def log() -> None:
            for line in lines:
                logger.info("%s", line)

        terminal.aside(sys.stderr, log)


def print_lines(lines: list[str]) -> None:
    """One line per closed span on the standard output of this moment, one write per batch."""
    stream = sys.stdout
    if stream is not None:
        text = "\n".join(lines) + "\n"
        encoding = getattr(stream, "encoding", None) or "utf-8"
        terminal.aside(stream, lambda: write_whole(stream, text, encoding))


LINE_OUTLETS: dict[str, LineOutlet] = {"log": log_lines, "stdout": print_lines}


def event_stream(stream: TextIO | None, sdk_version: str) -> Callable[[str], None]:
    """Writes each batch as one line to ``stream``, which the platform's kernel reads."""
    from sonde._core import encode_json

    head = (
        f'{{"__cirron_event__":"trace_batch","schema_version":{EVENT_SCHEMA_VERSION},'
        f'"sdk_version":{encode_json(sdk_version)},"payload":'
    )

    def send(batch: str) -> None:
        if stream is None:
            raise OSError("this process has no standard output for the event stream")
        write_whole(stream, f"{head}{batch}}}\n", "utf-8")

    return send


def write_whole(stream: TextIO, text: str, encoding: str) -> None:
    """Writes lines that no print() of another thread can break in two.

    The text layer of a stream hands on half lines when much is written at once, so this goes below
    it where there is a below, and nobody else's: what stands in for a stream, or for its write(),
    wants to see what is written. A character the encoding lacks costs itself, not the batch.
    """
    if not _is_plain(stream):
        stream.write(text)
    else:
        stream.flush()
        stream.buffer.write(text.encode(encoding, "backslashreplace"))
    stream.flush()


def _is_plain(stream: object) -> bool:
    kind: Any = type(stream)
    return (
        isinstance(stream, TextIOWrapper)
        and kind.write is TextIOWrapper.write
        and "write" not in vars(stream)
    )
