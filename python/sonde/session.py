"""The session of this process: at most one at a time, whichever API opened it.

The API that opens it holds it, and ends it. Another API that starts a session joins: it gets a
handle of its own class, and what is recorded through either is one tree. When the joined one shuts
down it only leaves. An API that is switched off (``enabled=False``) switches off no other.
"""

from __future__ import annotations

from _thread import RLock

from sonde import (
    _core,
    ending,
    face,
    facts,
    hooks,
    joining,
    log,
    process,
    snapshots,
    unseen,
)
from sonde.opening import Opening, named_ids
from sonde.request import Request
from sonde.state import State, nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from sonde.face import Face
    from sonde.hooks import Hook

    H = TypeVar("H", bound="Handle")

# Re-entrant: a signal handler may end the session while ``begin`` runs on the same thread.
_lock = RLock()
# The handle that holds the open session.
_current: Handle | None = None
# The open handle of each API, by the name of its face: the one that holds the session, those that
# have joined it, and those that are switched off.
_handles: dict[str, Handle] = {}
# In a forked child: the hooks of the parent's session, which are still in place.
_inherited: list[Hook] = []
# Has it been said that a session cannot begin inside a log handler or a sink?
_said_not_here = False


class Handle:
    """What an API has of the session that it has started. Each API derives a class of its own."""

    __slots__ = (
        "_enabled",
        "_face",
        "_final",
        "_hooks",
        "_opening",
        "_platform",
        "_spool_dir",
        "_transport",
    )

    def __init__(self, enabled: bool) -> None:
        self._face = face.Face()  # ``begin`` sets that of the API
        self._enabled = enabled
        self._platform: dict[str, str] = {}
        self._transport: str | None = None
        self._spool_dir: str | None = None
        self._hooks: list[Hook] = []
        self._opening: Opening | None = None
        self._final: dict[str, Any] | None = None

    @property
    def enabled(self) -> bool:
        """True while its session records."""
        return self._enabled and _handles.get(self._face.name) is self

    def state(self) -> State:
        """State and losses of the session. Never raises, never waits."""
        return State(
            self._final,
            live=self.enabled,
            spool_dir=self._spool_dir,
            transport=self._transport,
            hooks=self._hooks,
            platform=self._platform,
        )

    def flush(self) -> None:
        """Writes what is recorded so far. Waits for lines and the transport 2 s at most."""
        if self.enabled:
            _guarded(facts.refresh, "the session's attributes may be out of date", self._face)
            _guarded(_core.session.flush, "flushing failed", self._face)

    def shutdown(self) -> None:
        """Closes what is open, writes everything, and makes way for another session.

        A handle that has joined another API's session leaves it, and the session goes on.
        """
        self._end(_by_call)

    def _end(self, say_how: Callable[[], bool]) -> None:
        """``say_how`` tells the session what ends it; it returns whether an exit status follows."""
        global _current
        if _handles.get(self._face.name) is not self:
            return
        # A log handler or a sink may call this on a thread of the profiler.
        if _core.session.stop_after_call(lambda: self._end(say_how)):
            return
        with _lock:
            if _handles.get(self._face.name) is not self:
                return
            if _current is not self:
                self._leave()
                return
            try:
                if self._enabled:
                    self._close(say_how)
            finally:
                _current = None
                for other in [each for each in _handles.values() if each._enabled]:
                    other._final = self._final
                    del _handles[other._face.name]
                _set_gate()

    def _leave(self) -> None:
        """Ends a handle that does not hold the session: it has joined, or is switched off."""
        if self._enabled:
            _guarded(_core.session.flush, "flushing failed", self._face)
            self._final = _core.session.counters()
        del _handles[self._face.name]
        if _current is None:
            _set_gate()

    def _join(self, holder: Handle) -> None:
        """Makes this a second handle of the session that ``holder`` has begun."""
        self._platform = self._face.platform_context()
        self._annotate_ids()
        self._transport = holder._transport
        self._spool_dir = holder._spool_dir
        self._hooks = holder._hooks

    def _annotate_ids(self) -> None:
        _guarded(
            lambda: _core.session.annotate(named_ids(self._face, self._platform)),
            "the ids that the platform gave this run are missing",
            self._face,
        )

    def _close(self, say_how: Callable[[], bool]) -> None:
        """Takes away what was put in place, and ends the engine's session."""
        try:
            _guarded(snapshots.finish, "the last snapshot is missing")
            _guarded(facts.stop, "the session's attributes may be out of date")
            hooks.uninstall(self._hooks)
            _guarded(unseen.end, "the hint at the end is missing")
            _guarded(ending.stop_listening, "the hooks for exceptions stay in place")
        finally:  # also when Ctrl-C comes in between
            _guarded(
                lambda: _core.session.stop(at_exit=say_how()),
                "not everything could be written at the end of the session",
            )
            self._final = _core.session.counters()

    def _start(self, request: Request) -> None:
        """Opens the engine's session; if that is not possible, training goes on without one."""
        global _current
        try:
            self._open_session(request)
            _current = self
            _handles[self._face.name] = self
        except Exception as error:
            log.swallowed("session")
            self._give_up()
            _core.session.set_recording(False)
            log.warn(
                "profiler",
                f"profiling is off for this run ({type(error).__name__}: {error}); the program "
                "goes on, please report this",
            )
            _handles[self._face.name] = self  # so that its health can be asked for
        except BaseException:  # Ctrl-C, which the program gets
            self._give_up()
            _current = None
            _handles.pop(self._face.name, None)
            _set_gate()
            raise

    def _give_up(self) -> None:
        """Ends what has begun of a session. Its health says what went wrong."""
        self._enabled = False
        began = _core.session.counters()["flush_mode"] != "stopped"
        self._close(lambda: False)
        if not began:  # the counters are those of an earlier session, except for the errors
            now = _core.session.counters()
            errors = {key: now[key] for key in ("swallowed_error_count", "swallowed_errors")}
            self._final = nothing() | errors

    def _open_session(self, request: Request) -> None:
        opening = self._opening = Opening(self._face, request)
        self._platform = opening.platform
        self._transport = opening.transport
        self._spool_dir = opening.spool_dir
        frameworks = hooks.detect() if request.frameworks is None else request.frameworks
        _core.loops.begin_session()
        opening.start(self._troubles)
        ending.listen()
        self._hooks = hooks.install(frameworks, request.hook_options)
        if request.frameworks is None:
            unseen.arm()

    def _reopen(self) -> None:
        """Opens the session again, in a child of a process that had recorded nothing in it."""
        global _current
        try:
            self._start_again()
        except Exception:
            self._enabled = False
            _current = None
            raise
        for other in _handles.values():
            if other._enabled and other is not self:
                other._annotate_ids()

    def _start_again(self) -> None:
        if self._opening is not None:
            self._opening.start(self._troubles)

    def _troubles(self) -> list[str]:
        return hooks.troubles(self._hooks)


def begin(
    speaker: Face,
    make: Callable[[bool], H],
    wanted: Mapping[str, object],
    *,
    enabled: bool = True,
) -> H:
    """Opens the session, or joins the one that another API has opened.

    ``speaker`` is the face of the API that the program called. ``make(enabled)`` returns a handle
    of that API, or raises. ``wanted`` are the options, as ``Request`` takes them. A bad option
    raises, and leaves everything as it was. An API that has a handle gets the same one again.
    """
    global _current
    if _core.session.calls_host():
        return _not_here(speaker, make)
    with _lock:
        if (own := _handles.get(speaker.name)) is not None:
            log.warn("profiler", _started_twice(speaker, own), speaker)
            return own  # type: ignore[return-value]  # made by this API
        if not enabled:
            made = make(False)
            made._face = speaker
            if _current is None:
                _speak_as(speaker)
                _core.session.set_recording(False)
        else:
            request = Request(speaker, wanted)
            made = make(True)
            made._face = speaker
            if _current is None:
                _speak_as(speaker)
                _core.session.reset_swallowed()
            speaker.session_begins()
            if _current is not None:
                made._join(_current)
                joining.say_what_is_ignored(speaker, request, _current._opening)
            else:
                hooks.uninstall(_inherited)
                _inherited.clear()
                process.at_exit(_process_ends, _child_ends)
                _core.session.set_recording(True)  # another API may have switched it off
                made._start(request)
                return made
        _handles[speaker.name] = made
        return made


def _not_here(speaker: Face, make: Callable[[bool], H]) -> H:
    """A log handler or a sink begins a session, on a thread of the profiler that calls it.

    The end of a session may wait for that thread, so the thread must not wait for the end.
    """
    global _said_not_here
    if not _said_not_here:
        _said_not_here = True  # first: the handler that gets this message may be the one
        call = speaker.call("start", "the start of a session")
        log.warn(
            "profiler",
            f"{call} has no effect inside a log handler or a sink that the profiler has called: "
            "start the session elsewhere in the program",
            speaker,
        )
    if (own := _handles.get(speaker.name)) is not None:
        return own  # type: ignore[return-value]  # made by this API
    made = make(False)
    made._face = speaker
    return made


def introduce(speaker: Face) -> None:
    """An API was imported. Until a session begins, messages are in the words of the first one."""
    if face.introduce(speaker):
        _core.session.set_face(speaker.for_engine())


def _speak_as(speaker: Face) -> None:
    """From now on messages of the engine and of this package are in the words of this API."""
    face.use(speaker)
    _core.session.set_face(speaker.for_engine())


def _started_twice(speaker: Face, own: Handle) -> str:
    goes_on = "the first session goes on" if own.enabled else "profiling is off, and stays off"
    return (
        f"{speaker.call('start', 'the start of a session')} called more than once: {goes_on}, "
        f"these arguments are ignored; {speaker.advise('started-twice')}"
    )


def _set_gate() -> None:
    """Without a session, memory keeps what is recorded, unless an API is switched off."""
    _core.session.set_recording(not _handles, keep_trace=True)


def current() -> Handle | None:
    """The handle that holds the open session."""
    return _current


def handle_of(speaker: Face) -> Handle | None:
    """The open handle of this API, enabled or not."""
    return _handles.get(speaker.name)


def flush() -> None:
    """Writes what the open session has recorded so far, if there is one."""
    if (handle := _current) is not None:
        handle.flush()


def shutdown(speaker: Face) -> None:
    """Ends the session if this API holds it. If it has joined the session, it leaves."""
    if (handle := handle_of(speaker)) is not None:
        handle.shutdown()


def watch(speaker: Face, model: object, name: str | None = None) -> None:
    """Capture the weights and gradients of this model at the end of every epoch. Never raises.

    From an API that is switched off this does nothing.
    """
    if (own := handle_of(speaker)) is not None and not own._enabled:
        return
    snapshots.watch(speaker, model, name, early=_current is None)


def _by_call() -> bool:
    ending.by_call()
    return False


def _process_ends() -> None:
    if (handle := _current) is not None:
        handle._end(ending.by_exit)


def _child_ends() -> None:
    if (handle := _current) is not None:
        handle._end(ending.by_exit_of_child)


def state(speaker: Face) -> State:
    """State and losses of the open session; without one, there is nothing in it.

    For an API that is switched off there is none.
    """
    handle = handle_of(speaker) or _current
    return State() if handle is None else handle.state()


def _guarded(work: Callable[[], None], failure: str, speaker: Face | None = None) -> None:
    """Runs ``work``. If it raises, the error is logged and the program goes on.

    ``speaker``: the API that the program called, where it may be another than the session's.
    """
    try:
        work()
    except Exception as error:
        log.swallowed("session")
        log.warn("flush", f"{failure}: {error}; the program goes on, please report this", speaker)


def _reset_in_child() -> None:
    """After a fork: the session is the parent's, and the child begins without one.

    A session that is switched off stays so. One that is on demand and has recorded nothing yet is
    opened again in the child: the server of the start method "forkserver" has imported the main
    program, and so begun the session, on behalf of its children.
    """
    global _lock, _current
    _lock = RLock()
    snapshots.forget()
    unseen.forget()
    if _current is None:
        return
    if _core.session.parent_recorded_nothing():
        _guarded(_current._reopen, "profiling is off in this process")
    else:
        _inherited[:] = _current._hooks
        _current = None
        for joined in [each for each in _handles.values() if each._enabled]:
            del _handles[joined._face.name]
        if _handles:
            _set_gate()
        facts.forget()
        ending.stop_listening()


process.at_fork_in_child(_reset_in_child)
_core.session.set_log_handler(log.forward)
