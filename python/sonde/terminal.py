"""Writes lines to a terminal on which the program draws progress bars, so that they do not mix."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Drawing a bar takes less. Code that holds the lock of the bars for longer must not delay us.
PATIENCE_S = 0.5
CLEAR_LINE = "\r\033[K"


class Hidden:
    """Bars of tqdm that are hidden, and the locks that keep tqdm from drawing them."""

    __slots__ = ("bars", "locks")

    def __init__(self) -> None:
        self.bars: list[Any] = []
        self.locks: list[Any] = []


def aside(stream: Any, write: Callable[[], object]) -> None:
    """Calls ``write``, which writes whole lines to ``stream``, with no bar on the current line."""
    hidden = hide(stream)
    try:
        write()
    finally:
        show(hidden)


def hide(stream: Any) -> Hidden:
    """Hides the bars until ``show``. Does nothing where ``stream`` is no terminal.

    rich moves its bars itself, because it replaces ``sys.stdout`` and ``sys.stderr``.
    """
    hidden = Hidden()
    if not _is_terminal(stream):
        return hidden
    tqdm: Any = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    drawn = bool(getattr(tqdm, "_instances", None))
    try:
        if drawn and _take_locks(tqdm, hidden):
            for bar in list(tqdm._instances):
                if hasattr(bar, "start_t") and _is_terminal(bar.fp):
                    hidden.bars.append(bar)
                    bar.clear(nolock=True)
        elif drawn or "keras" in sys.modules:
            # Clears the line. A bar is drawn again, but the text of a plain print(end="") would be
            # lost, so this is done only where bars are drawn.
            stream.write(CLEAR_LINE)
    except Exception:
        pass  # a bar that was just closed, another version of tqdm: the line is written anyway
    return hidden


def show(hidden: Hidden) -> None:
    """Draws the bars again, below what was written."""
    try:
        for bar in hidden.bars:
            bar.refresh(nolock=True)
    except Exception:
        pass
    finally:
        for lock in reversed(hidden.locks):
            lock.release()


def _take_locks(tqdm: Any, hidden: Hidden) -> bool:
    lock = tqdm.get_lock()
    for each in getattr(lock, "locks", (lock,)):
        if not each.acquire(timeout=PATIENCE_S):
            return False
        hidden.locks.append(each)
    return True


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except Exception:  # None, closed, or an object of the program
        return False
