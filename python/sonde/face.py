"""What differs between the APIs ("faces") that a session can be started from.

A face is one value: names for loggers, lines and the root span, the ids that its platform gives a
run, its transport, and how it phrases advice. It is handed over when a session begins. The engine
and this package know no face by name.
"""

from __future__ import annotations

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")


class Face:
    """The face of no API: general words. A face of an API overrides what it says differently."""

    # Loggers are <name>.flush and so on, lines begin with [<name>], the root span is
    # <name>.session.
    name = "sonde"
    # Classes that the hooks hand to frameworks are called <class_prefix>KerasCallback and so on.
    class_prefix = "Sonde"
    # What to do about a kind of trouble, by its key. Messages of the engine have keys too.
    advice: Mapping[str, str] = {}

    @property
    def prefix(self) -> str:
        return f"[{self.name}] "

    def advise(self, key: str, general: str) -> str:
        """What a user of this API can do, as the end of a sentence."""
        return self.advice.get(key, general)

    def argument(self, name: str, shown: str) -> str:
        """How to give this argument of the call that starts a session."""
        return f"give {name}={shown} to the call that starts the session"

    def setting(self, name: str, shown: str) -> str:
        """How to give this setting, which is no argument of that call."""
        return f"give {name}={shown} as a setting"

    def platform_context(self) -> dict[str, str]:
        """Ids that the platform gave this run; what is not set is left out."""
        return {}

    def transport(
        self, platform: Mapping[str, str], settings: Mapping[str, object], spool_dir: str | None
    ) -> tuple[str, Callable[[str], None] | None]:
        """Name of the transport for health(), and what takes the batches, if anything does."""
        return "FileOnlyTransport", None

    def session_begins(self) -> None:
        """Before a session begins: the face may have something to say."""


_current = Face()


def current() -> Face:
    """The face of the session, or of the last one, or of the API that was imported."""
    return _current


def use(face: Face) -> None:
    """From now on the engine and this package speak as ``face``."""
    global _current
    _current = face
    _core.session.set_face((face.name, dict(face.advice)))


def introduce(face: Face) -> None:
    """An API was imported. It speaks until a session begins, unless one is open."""
    from sonde import session

    if session.current() is None:
        use(face)


def named(made: type[T], name: str) -> type[T]:
    """A class that frameworks show to the user, under a name of the face's."""
    made.__name__ = made.__qualname__ = _current.class_prefix + name
    return made
