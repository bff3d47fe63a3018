"""Messages of the profiler, on the loggers of the face.

A topic is the name of a logger without the name of the face: ``flush`` for ``sonde.flush``. A
program that has not imported ``logging`` has set up no handler. Its warnings go to the standard
error, as those of ``logging`` would, and ``logging`` is not imported for them.
"""

from __future__ import annotations

import sys

from sonde import _core, face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sonde.face import Face

INFO = 20
WARNING = 30


def forward(level: int, logger: str, text: str, speaker: Face | None = None) -> None:
    """The engine's log handler; ``logger`` is the whole name.

    ``speaker``: the face of the API that speaks, where it may be another than the session's.
    """
    from sonde import terminal

    message = prefixed(text, speaker)
    if "logging" in sys.modules:
        import logging

        terminal.aside(sys.stderr, lambda: logging.getLogger(logger).log(level, "%s", message))
    elif level >= WARNING and (stream := sys.stderr) is not None:
        try:
            terminal.aside(stream, lambda: stream.write(message + "\n"))
        except (OSError, ValueError):  # closed
            return


def warn(topic: str, text: str, speaker: Face | None = None) -> None:
    forward(WARNING, f"{(speaker or face.current()).name}.{topic}", text, speaker)


def info(topic: str, text: str) -> None:
    forward(INFO, f"{face.current().name}.{topic}", text)


def swallowed(place: str) -> None:
    """Counts an error that was caught in ``place`` and after which the work goes on.

    A session's health shows the counts as ``swallowed_errors``.
    """
    _core.session.note_swallowed(place)


def prefixed(text: str, speaker: Face | None = None) -> str:
    """With the face's prefix before every line; the text may quote an error of several lines."""
    prefix = (speaker or face.current()).prefix
    lines = text.splitlines() or [text]
    return "\n".join(line if line.startswith(prefix) else prefix + line for line in lines)
