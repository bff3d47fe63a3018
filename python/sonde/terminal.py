"""Lines of ours on a terminal where the program draws a progress bar: they never share a line."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Longer than anybody draws. Whoever holds on to a bar for longer must not hold us up.
PATIENCE_S = 0.5
CLEAR_LINE = "\r\033[K"


class Hidden:
    """Bars of tqdm that are out of sight, and the locks that keep them there."""

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
    """Takes the bars away until ``show``. Does nothing where ``stream`` is no terminal.

    Those of rich move by themselves: it stands in for ``sys.stdout`` and ``sys.stderr``.
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
            # Whoever draws there draws again. A plain print(end="") of the program's would be lost,
            # so this is done only where somebody does.
            stream.write(CLEAR_LINE)
    except Exception:
        pass  # a bar that is just closed, another version of tqdm: the line comes all the same
    return hidden


def show(hidden: Hidden) -> None:
    """The bars come back below what was written."""
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
    except Exception:  # None, closed, or an object of the program's
        return False
