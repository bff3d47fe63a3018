"""Messages of the profiler, on the loggers the API documents (imported when one is due)."""

from __future__ import annotations

import sys

INFO = 20
WARNING = 30
PREFIX = "[cirron] "


def forward(level: int, logger: str, text: str) -> None:
    """The engine's log handler."""
    import logging

    from sonde import terminal

    # Without a handler of the program's a warning goes to the standard error.
    message = prefixed(text)
    terminal.aside(sys.stderr, lambda: logging.getLogger(logger).log(level, "%s", message))


def warn(logger: str, text: str) -> None:
    forward(WARNING, logger, text)


def info(logger: str, text: str) -> None:
    """A program that has not imported ``logging`` would not see it."""
    if "logging" in sys.modules:
        forward(INFO, logger, text)


def prefixed(text: str) -> str:
    """Every line says whose it is; the error of somebody else in the middle may have several."""
    lines = text.splitlines() or [text]
    return "\n".join(line if line.startswith(PREFIX) else PREFIX + line for line in lines)
