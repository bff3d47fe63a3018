"""Messages of the profiler, on the loggers that the face documents.

``logging`` is imported when a message is due. A topic is the name of a logger without the face's.
"""

from __future__ import annotations

import sys

from sonde import _core, face

INFO = 20
WARNING = 30


def forward(level: int, logger: str, text: str) -> None:
    """The engine's log handler; ``logger`` is the whole name."""
    import logging

    from sonde import terminal

    # Without a handler of the program's a warning goes to the standard error.
    message = prefixed(text)
    terminal.aside(sys.stderr, lambda: logging.getLogger(logger).log(level, "%s", message))


def warn(topic: str, text: str) -> None:
    forward(WARNING, f"{face.current().name}.{topic}", text)


def info(topic: str, text: str) -> None:
    """A program that has not imported ``logging`` would not see it."""
    if "logging" in sys.modules:
        forward(INFO, f"{face.current().name}.{topic}", text)


def swallowed(place: str) -> None:
    """Counts an error that was caught in ``place`` and after which the work goes on.

    ``health()`` shows the counts as ``swallowed_errors``.
    """
    _core.session.note_swallowed(place)


def prefixed(text: str) -> str:
    """Every line says whose it is; an error of the program in the middle may have several."""
    prefix = face.current().prefix
    lines = text.splitlines() or [text]
    return "\n".join(line if line.startswith(prefix) else prefix + line for line in lines)
