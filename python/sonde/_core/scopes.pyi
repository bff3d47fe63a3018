"""What hooks do with scopes besides entering and leaving them."""

from sonde._core import scope

def claim_levels(scope: scope, epochs: bool, steps: bool, validation: bool = False) -> scope:
    """While this scope is open, hooks open no epoch, no step, no validation below it."""

def cancel(scope: scope) -> bool:
    """Undoes the entering of the scope; False if something was recorded in it since."""

def mark(scope: scope, name: str, value: float, summary: bool = False) -> None:
    """Attaches a float to the span of this scope, even if it is closed.

    A mark that comes after the end of its span names it, but the span does not list it.
    """

def mark_innermost(level: str, name: str, value: object, summary: bool) -> bool:
    """Attaches a value to the innermost open scope of that name; false if there is none."""

def is_open(name: str) -> bool:
    """Whether a scope of this name is open here; a batch is a step."""

def is_level_open(level: str) -> bool:
    """Whether an "epoch", a "step" or a "validation" that no hook inferred is open here."""

def any_loop_open() -> bool:
    """Whether an epoch, step, batch, validation, predict or train is open on any thread."""

def any_loop_recorded() -> bool:
    """The same for the spans of the session that are in memory, closed or open."""

def note_exception(exception: BaseException, since: int = 0) -> None:
    """Adds the exception to the open spans of this stack, or to those opened since ``since``."""

def next_sequence() -> int:
    """The number of the span that this thread opens next, for ``since`` of note_exception.

    0: the thread has recorded nothing yet.
    """
