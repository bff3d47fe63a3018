"""Messages of the profiler, on the loggers the API documents (imported when one is due)."""

from __future__ import annotations

import sys

INFO = 20
WARNING = 30


def forward(level: int, logger: str, text: str) -> None:
    """The engine's log handler."""
    import logging

    logging.getLogger(logger).log(level, "%s", text)


def warn(logger: str, text: str) -> None:
    forward(WARNING, logger, text)


def info(logger: str, text: str) -> None:
    """A program that has not imported ``logging`` would not see it."""
    if "logging" in sys.modules:
        forward(INFO, logger, text)
