"""The life of a session."""

from collections.abc import Callable
from typing import Any

def start(options: dict[str, object]) -> None:
    """Opens the session and its root scope ``<face>.session``, and starts the drain thread.

    ``options`` has exactly these members:

    - ``output_dir: str | None``: absolute, or None: nothing on disk
    - ``flush_interval: float``: seconds
    - ``spool_max_bytes: int``, ``trace_max_spans: int``
    - ``rank: int``, ``local_rank: int``, ``world_size: int``
    - ``on_demand: bool``: thread and files come when something is recorded, and never if nothing
      is
    - ``attrs: dict[str, object]``: attributes of the root scope
    - ``lines: list[tuple[str, str, str | None, Callable[[list[str]], None]]]``: what gets the live
      lines of drained spans, each with its target (``"stdout"``), a level (``"epoch"``,
      ``"step"``, ``"all"``) and a glob for names
    - ``on_batch: Callable[[str], None] | None``: gets each batch as JSON
    - ``face: dict[str, object]``: the API that the session was started from: ``name`` (loggers are
      ``<name>.flush`` and so on, the root scope ``<name>.session``, lines begin with ``[<name>]``)
      and ``advice`` (what to do, by the key of a message)

    The callables run with the GIL held, each on a thread of its own; what they raise is logged
    once. A member that is missing, unknown or of another type raises TypeError.
    """

def set_face(face: dict[str, object]) -> None:
    """The API that messages speak for until a session begins; ``face`` is as for ``start``."""

def parent_recorded_nothing() -> bool:
    """In a forked child: the parent's session was on demand, and nothing had been recorded."""

def annotate(attrs: dict[str, object]) -> None:
    """Sets attributes of the session; its other attributes stay as they are.

    They are in the journal at once. Without a session nothing happens.
    """

def annotate_exception(exception: BaseException) -> None:
    """Records in the session an exception that was not caught."""

def stop(at_exit: bool = False) -> None:
    """Closes every scope, writes everything to sinks and transport, and ends the session.

    ``at_exit``: the process is about to end; its exit status will be added to the session's span.
    Idempotent; lets go of the GIL while it waits.
    """

def stop_after_call(stop: Callable[[], None]) -> bool:
    """On a thread of the profiler that calls a log handler or a sink: True.

    That thread must not end the session now. It calls ``stop`` once the handler or the sink has
    returned. Elsewhere this returns False, and nothing happens.
    """

def calls_host() -> bool:
    """Does the profiler call a log handler or a sink on this thread at this moment?

    Then no session can begin here.
    """

def flush() -> None:
    """Writes what is recorded so far; returns when that is done, or after 30 s.

    Waits for sinks that are not durable, and for the transport, for 2 s at most.
    """

def set_recording(enabled: bool, keep_trace: bool = False) -> None:
    """False: scope, mark, epochs and batches record nothing.

    What was recorded before is forgotten then, unless ``keep_trace`` is true.
    """

def counters() -> dict[str, Any]:
    """Losses, sizes and state of the session."""

def set_log_handler(handler: Callable[[int, str, str], None] | None) -> None:
    """Where the engine's messages go: level as in ``logging``, logger name, text."""

def general_advice() -> dict[str, str]:
    """What to do about each kind of trouble, by its key, where a face has no words of its own."""

def note_swallowed(place: str) -> None:
    """Counts an error after which the profiler goes on, by the part that failed."""

def reset_swallowed() -> None:
    """A session begins: errors are counted from zero, even if ``start`` is not reached."""
