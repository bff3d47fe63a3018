"""Functions that ``jax.jit`` has made."""

from collections.abc import Callable

def start_following(
    role: Callable[[object, tuple[object, ...]], str | None],
    note: Callable[[object, tuple[object, ...], object], None],
) -> None:
    """follow_calls() may be used from now on.

    role(function, args) says what a call is: a "step", a "backward", or None if that is not known
    yet. note(function, args, result) is told what a call got and returned.
    """

def follow_calls(function: object) -> bool:
    """Calls of this compiled function may be training steps."""

def stop_following() -> None:
    """Undoes everything that start_following() and follow_calls() did."""

def note_differentiation() -> None:
    """The compiled function that is being called differentiates."""
