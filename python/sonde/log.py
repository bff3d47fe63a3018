"""Messages of the profiler, on the loggers of the face.

``logging`` is imported when a message is due. A topic is the name of a logger without the name of
the face: ``flush`` for ``sonde.flush``.
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
    import logging

    from sonde import terminal

    # Where the program has set up no handler, a warning goes to the standard error.
    message = prefixed(text, speaker)
    terminal.aside(sys.stderr, lambda: logging.getLogger(logger).log(level, "%s", message))


def warn(topic: str, text: str, speaker: Face | None = None) -> None:
    forward(WARNING, f"{(speaker or face.current()).name}.{topic}", text, speaker)


def info(topic: str, text: str) -> None:
    """Does nothing where the program has not imported ``logging``, and so would not show it."""
    if "logging" in sys.modules:
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
