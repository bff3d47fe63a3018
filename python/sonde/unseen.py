"""A hint for programs that train in a loop that no hook sees: what to write around it.

JAX compiles a step into one function, and TensorFlow may do the same, so nothing of an epoch or a
step can be seen from outside. While such a framework is imported and no level was ever open, a
thread of ours looks now and then where the main thread is. It ends as soon as a loop is on record.
A look costs some microseconds with the GIL. The first comes after half a second; then they get
rarer.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, start_new_thread
from time import monotonic

from sonde import _core, face, log
from sonde.hooks.watcher import is_imported, unwatch, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import TypeVar

    _T = TypeVar("_T")

SHORTEST_RUN_S = 2.0
FIRST_LOOK_S, GROWTH, RAREST_LOOK_S = 0.5, 1.5, 10.0
DEEPEST = 200  # frames of a stack that are looked at


def _jax_was_used() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    initialized: Callable[[], bool] | None = getattr(bridge, "backends_are_initialized", None)
    return initialized is not None and bool(initialized())


def _tensorflow_was_used() -> bool:
    context = sys.modules.get("tensorflow.python.eager.context")
    current = getattr(context, "context_safe", lambda: None)()
    return bool(getattr(current, "_initialized", False))


# Module of a framework -> its name, and a function that says whether it has computed anything.
USED: dict[str, tuple[str, Callable[[], bool]]] = {
    "jax": ("JAX", _jax_was_used),
    "tensorflow": ("TensorFlow", _tensorflow_was_used),
}


class Lookout:
    """Looks out for a loop in one session, from the first import of such a framework on."""

    def __init__(self) -> None:
        self._used: list[str] = []
        self._seen: dict[tuple[str, int], int] = {}  # file and line -> how often
        self._looks = self._imports = 0  # how often it looked, and found an import under way
        self._stop = allocate_lock()
        self._stop.acquire()
        self._loop_found = False
        self.noted = False  # the hint is on the session's span
        self._main = _main_thread()
        self._began = monotonic()

    def start(self) -> None:
        try:
            start_new_thread(self._look_now_and_then, ())
        except RuntimeError:  # no thread could be started: the hint names no place
            return

    def stop(self) -> None:
        if self._stop.locked():
            self._stop.release()

    def _look_now_and_then(self) -> None:
        pause = FIRST_LOOK_S
        while not self._stop.acquire(timeout=pause):
            if _core.scopes.any_loop_open():
                self._loop_found = True
                return
            self._note_use()
            self._look()
            pause = min(pause * GROWTH, RAREST_LOOK_S)

    def _note_use(self) -> None:
        """Notes which frameworks are used. At the end of the process they may not tell any more."""
        for title, was_used in USED.values():
            if title not in self._used and _safely(was_used):
                self._used.append(title)

    def _look(self) -> None:
        frame = sys._current_frames().get(self._main)
        self._looks += 1
        if _imports(frame):
            self._imports += 1
        elif (place := _place_of(frame)) is not None:
            self._seen[place] = self._seen.get(place, 0) + 1

    def hint(self) -> str | None:
        """The text; None if there is a loop on record, or if nothing was computed."""
        if self._loop_found or monotonic() - self._began < SHORTEST_RUN_S:
            return None
        if 0 < self._looks == self._imports:
            return None  # it ended before it came to anything
        self._note_use()
        if not self._used or _core.scopes.any_loop_recorded():
            return None
        return (
            f"no epoch or step is on record: {' and '.join(self._used)} ran, in a loop that no "
            f"hook sees{self._where()}. " + face.current().advise("unseen-loop")
        )

    def _where(self) -> str:
        if not self._seen:
            return ""
        (file, line), _ = max(self._seen.items(), key=lambda item: item[1])
        return f"; the program spent most of its time at {file}:{line}"


_lookout: Lookout | None = None
_watched: list[str] = []


def arm() -> None:
    """A session begins: looks out from the first import of such a framework on."""
    for framework in USED:
        if is_imported(framework):
            _begin()
        else:
            watch(framework, _begin)
            _watched.append(framework)


def _begin() -> None:
    global _lookout
    if _lookout is None and not _is_child():
        _lookout = Lookout()
        _lookout.start()


def forget() -> None:
    """In a forked child: the thread is the parent's."""
    global _lookout
    _lookout = None
    while _watched:
        unwatch(_watched.pop(), _begin)


def note() -> str | None:
    """Before the session is read, and at its end: puts the hint on its span, if one is due."""
    if _lookout is None:
        return None
    text = _safely(_lookout.hint)
    if text is not None or _lookout.noted:
        _lookout.noted = text is not None
        # Readers show it as it is stored, without undoing escapes.
        plain = (text or "").replace("\\", "?").replace('"', "?")
        # An empty text removes a hint that was due before the loop began.
        _core.session.annotate({_core.attrs.HINT: plain})
    return text


def end() -> None:
    """The session ends: logs the hint, if one is due."""
    global _lookout
    while _watched:
        unwatch(_watched.pop(), _begin)
    if _lookout is None:
        return
    _lookout.stop()
    text = note()
    _lookout = None
    if text is not None:
        log.warn("hooks", text)


def _imports(frame: FrameType | None) -> bool:
    """Does this frame belong to the import of something that is not the program's?"""
    for _ in range(DEEPEST):
        if frame is None:
            return False
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return True
        if _is_of_the_program(file):
            return False
        frame = frame.f_back
    return False


def _place_of(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame of the program."""
    for _ in range(DEEPEST):
        if frame is None:
            return None
        file = frame.f_code.co_filename
        if _is_of_the_program(file):
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def _is_of_the_program(file: str) -> bool:
    if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return False
    return not file.startswith((_STANDARD_LIBRARY, *_our_folders()))


def _our_folders() -> list[str]:
    """Of this package, and of the packages of the APIs; they need not be installed."""
    names = {"sonde", *(kind.__module__.partition(".")[0] for kind in face.Face.__subclasses__())}
    found = [getattr(sys.modules.get(name), "__path__", None) for name in names]
    return [f"{folder}/" for path in found if path is not None for folder in path]


def _main_thread() -> int:
    from threading import main_thread

    return main_thread().ident or 0


def _is_child() -> bool:
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _safely(ask: Callable[[], _T]) -> _T | None:
    """Looks at the internals of a framework; None if that raises."""
    try:
        return ask()
    except Exception:
        return None


_STANDARD_LIBRARY = os.__file__.rpartition("/")[0]
