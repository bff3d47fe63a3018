"""Functions that ``jax.jit`` has made."""

from collections.abc import Callable

def start_following(
    role: Callable[[object, tuple[object, ...]], str | None],
    note: Callable[[object, tuple[object, ...], object], None],
) -> None:
    """follow_calls() may be used from now on.

    role(function, args): is it a "step", a "backward", or None yet? note(function, args, result):
    what it got and returned.
    """

def follow_calls(function: object) -> bool:
    """Calls of this compiled function may be training steps."""

def stop_following() -> None:
    """Undoes everything that start_following() and follow_calls() did."""

def note_differentiation() -> None:
    """The compiled function that is being called differentiates."""
