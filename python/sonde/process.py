"""The life of the process around a session: its exit and its forks."""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType

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
    from multiprocessing.util import register_after_fork

    _finalized_pid = os.getpid()
    if processes.parent_process() is not None:
        _at_exit_of_child(in_child)
    else:
        register_after_fork(in_child, _at_exit_of_child)


def _at_exit_of_child(ends: Callable[[], None]) -> None:
    if sys.version_info >= (3, 13):
        # From then on a child runs its exit handlers. By that time the exception is over.
        _remember_error()
        atexit.register(ends)
    else:
        from multiprocessing.util import Finalize

        Finalize(None, ends, exitpriority=0)


_error: BaseException | None = None


def error_of_child() -> BaseException | None:
    """What the function of this child of multiprocessing has raised. For ``in_child``."""
    return sys.exc_info()[1] if sys.version_info < (3, 13) else _error


def _remember_error() -> None:
    """Notes the exception that multiprocessing catches around the function of a child."""
    if sys.version_info < (3, 13):
        return
    monitoring = sys.monitoring
    event = monitoring.events.EXCEPTION_HANDLED

    def handled(code: CodeType, offset: int, error: BaseException) -> None:
        global _error
        if code.co_name == "_bootstrap":
            _error = error

    for tool in (4, 3):  # ids that Python reserves for no kind of tool
        try:
            monitoring.use_tool_id(tool, "sonde")
        except ValueError:  # taken
            continue
        monitoring.register_callback(tool, event, handled)
        monitoring.set_events(tool, event)
        return


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
