"""The life of the process around a session: its exit and its forks."""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_registered = False
_finalized_pid = 0


def at_exit(callback: Callable[[], None]) -> None:
    """Runs ``callback`` when this process ends in an orderly way. Call it for every session."""
    global _registered, _finalized_pid
    if not _registered:
        _registered = True
        atexit.register(callback)
    # A child of multiprocessing leaves through os._exit: only its own finalizers run, and those it
    # had at birth are discarded, so each child has to register anew.
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None or _finalized_pid == os.getpid():
        return
    from multiprocessing.util import Finalize

    _finalized_pid = os.getpid()
    Finalize(None, callback, exitpriority=0)


def at_fork_in_child(callback: Callable[[], None]) -> None:
    """Runs ``callback`` first thing in every forked child. To be called once."""
    os.register_at_fork(after_in_child=callback)
