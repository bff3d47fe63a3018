"""Replaces attributes, and puts the identical originals back.

Another tool may replace the same attribute after us. Ours cannot be taken out of the middle then:
it stays where the other tool found it and does nothing more (it asks ``active`` before it acts).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MISSING = object()


class Patches:
    """What one hook has put in place."""

    __slots__ = ("_undo", "active")

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.active = False

    def __bool__(self) -> bool:
        return self.active

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """``owner.name`` becomes ``make(original)``."""
        self.active = True
        own = vars(owner).get(name, _MISSING)  # unlike getattr, leaves a staticmethod as it is
        original = getattr(owner, name) if own is _MISSING else own
        ours = make(original)
        setattr(owner, name, ours)

        def undo() -> None:
            if vars(owner).get(name) is not ours:
                return  # another tool has replaced it since
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        self._undo.append(undo)

    def on_undo(self, undo: Callable[[], None]) -> None:
        self.active = True
        self._undo.append(undo)

    def undo(self) -> list[str]:
        """Puts the originals back, the last first. Returns what failed, as text."""
        self.active = False
        problems = []
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
        return problems
