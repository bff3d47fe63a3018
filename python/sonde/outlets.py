"""Where live lines go.

A thread of the engine, one for each sink, calls these functions. What they raise is logged once.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from sonde import face, terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    LineOutlet = Callable[[list[str]], None]


def log_lines(lines: list[str]) -> None:
    """One INFO record per closed span on the face's logger ``<name>.trace``."""
    if "logging" not in sys.modules:  # then no handler shows it
        return
    import logging

    logger = logging.getLogger(f"{face.current().name}.trace")
    if logger.isEnabledFor(logging.INFO):

        def log() -> None:
            for line in lines:
                logger.info("%s", line)

        terminal.aside(sys.stderr, log)


def print_lines(lines: list[str]) -> None:
    """One line per closed span on the current standard output, one write per batch."""
    stream = sys.stdout
    if stream is not None:
        text = "\n".join(lines) + "\n"
        encoding = getattr(stream, "encoding", None) or "utf-8"
        terminal.aside(stream, lambda: write_whole(stream, text, encoding))


LINE_OUTLETS: dict[str, LineOutlet] = {"log": log_lines, "stdout": print_lines}


def write_whole(stream: TextIO, text: str, encoding: str) -> None:
    """Writes lines that no print() of another thread can break in two.

    The text layer of a stream hands on half lines when much is written at once, so this writes to
    the buffer below it. An object that replaces a stream, or its write(), is written to directly:
    it wants to see what is written. A character that the encoding lacks is escaped.
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
