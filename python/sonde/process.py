"""The life of the process around a session: its exit and its forks."""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_registered = False
_finalized_pid = 0


def at_exit(callback: Callable[[], None], in_child: Callable[[], None]) -> None:
    """Runs ``callback`` when the interpreter ends. Call it for every session.

    ``in_child`` runs in a child of multiprocessing, as soon as its function has ended.
    """
    global _registered, _finalized_pid
    if not _registered:
        _registered = True
        atexit.register(callback)
    # A child of multiprocessing leaves through os._exit. Only finalizers of multiprocessing run.
    # The child discards those it has inherited, so each child has to register again. A child that
    # still imports the main program discards its finalizers after the import.
    processes = multiprocessing_of_a_child()
    if processes is None or _finalized_pid == os.getpid():
        return
    from multiprocessing.util import Finalize, register_after_fork

    _finalized_pid = os.getpid()
    if processes.parent_process() is not None:
        Finalize(None, in_child, exitpriority=0)
    else:
        register_after_fork(in_child, lambda ends: Finalize(None, ends, exitpriority=0))


def multiprocessing_of_a_child() -> ModuleType | None:
    """``multiprocessing.process`` in a process that it started, else None."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None:
        return None
    # A spawned child that imports the main program has no parent yet, but is marked; the server
    # that forks children is known by its command line.
    if (
        processes.parent_process() is not None
        or getattr(processes.current_process(), "_inheriting", False)
        or any(part.startswith("from multiprocessing.") for part in sys.orig_argv[1:])
    ):
        return processes
    return None


def at_fork_in_child(callback: Callable[[], None]) -> None:
    """Runs ``callback`` in every forked child, after callbacks that were given earlier."""
    os.register_at_fork(after_in_child=callback)
