"""How a run ends, and the exception that was not caught.

``sys.excepthook`` and ``threading.excepthook`` get a listener in front, which passes each call on
to the previous hook. A program may replace the hooks later, or call them itself.
"""

from __future__ import annotations

import sys

from sonde import _core, log, process
from sonde._core import attrs
from sonde.hooks.watcher import is_imported, unwatch, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_listeners: list[_Listener] = []


class _Listener:
    """Listens in front of one hook until it is removed; after that it only passes calls on."""

    __slots__ = ("_called", "_hear", "_name", "_owner", "_previous")

    def __init__(self, owner: Any, name: str, hear: Callable[..., None]) -> None:
        self._owner, self._name = owner, name
        self._hear: Callable[..., None] | None = hear
        self._previous = previous = getattr(owner, name)

        # A function, for tools that look at its name or its code.
        def excepthook(*args: Any) -> Any:
            if self._hear is not None:
                _hear_safely(self._hear, args)
            return previous(*args)

        self._called = excepthook
        setattr(owner, name, excepthook)

    def remove(self) -> None:
        self._hear = None
        if getattr(self._owner, self._name, None) is self._called:
            setattr(self._owner, self._name, self._previous)


def _hear_safely(hear: Callable[..., None], args: tuple[Any, ...]) -> None:
    try:
        hear(*args)
    except Exception as error:  # the traceback has to be printed anyway
        log.swallowed("ending")
        log.warn(
            "profiler", f"an uncaught exception is not in the trace: {error}; please report this"
        )


def listen() -> None:
    """From now on uncaught exceptions are part of the session."""
    _listeners.append(_Listener(sys, "excepthook", _uncaught))
    if is_imported("threading"):
        _listen_to_threads()
    else:
        watch("threading", _listen_to_threads)


def stop_listening() -> None:
    unwatch("threading", _listen_to_threads)
    while _listeners:
        _listeners.pop().remove()


def _listen_to_threads() -> None:
    _listeners.append(_Listener(sys.modules["threading"], "excepthook", _uncaught_in_thread))


def _uncaught(kind: object, value: object, traceback: object) -> None:
    # The interpreter stores the exception before it calls the hook. A program that calls the hook
    # itself does not.
    if value is _last_exception() and isinstance(value, BaseException):
        _core.scopes.note_exception(value)
        _core.session.annotate_exception(value)


def _uncaught_in_thread(args: Any) -> None:
    value = args.exc_value
    if value is not None and not isinstance(value, SystemExit):
        _core.scopes.note_exception(value)
        _core.session.annotate_exception(value)


def _last_exception() -> BaseException | None:
    """The exception that ended the program; None at a prompt, where it ended only a line."""
    if hasattr(sys, "ps1"):
        return None
    value: BaseException | None = getattr(sys, "last_exc", None)  # from Python 3.12 on
    return getattr(sys, "last_value", None) if value is None else value


# -- what the session says of its end --


def by_call() -> None:
    """The program ends the session, maybe while an exception is being raised."""
    _core.session.annotate({attrs.ENDED_BY: attrs.SHUTDOWN})
    if (error := sys.exc_info()[1]) is not None:
        _core.session.annotate_exception(error)


def by_exit() -> bool:
    """The interpreter ends. Returns True: the exit status follows."""
    error = _last_exception()
    if error is not None:
        # Needed where the program has replaced our hook by its own.
        _core.scopes.note_exception(error)
        _core.session.annotate_exception(error)
    _core.session.annotate({attrs.ENDED_BY: attrs.EXIT if error is None else attrs.EXCEPTION})
    return True


def by_exit_of_child() -> bool:
    """A child of multiprocessing ends, maybe because its function has raised."""
    error = process.error_of_child()
    if error is None:
        _core.session.annotate({attrs.ENDED_BY: attrs.RETURN, attrs.EXIT_CODE: 0})
    elif isinstance(error, SystemExit):
        _say_exit(error)
    else:
        _core.scopes.note_exception(error)
        _core.session.annotate_exception(error)
        _core.session.annotate({attrs.ENDED_BY: attrs.EXCEPTION, attrs.EXIT_CODE: 1})
    return False


def _say_exit(error: SystemExit) -> None:
    # As multiprocessing does it: a text is printed, and the status is 1.
    code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
    cause = error.__context__
    if code != 0 and cause is not None and not error.__suppress_context__:
        _core.session.annotate_exception(cause)  # torch's workers catch and exit
    how = attrs.RETURN if code == 0 else attrs.EXIT
    _core.session.annotate({attrs.ENDED_BY: how, attrs.EXIT_CODE: code & 0xFF})
