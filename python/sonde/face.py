"""What differs between the APIs ("faces") that a session can be started from.

A face is one value, handed over when a session begins. The engine and this package know no face by
name.
"""

from __future__ import annotations

import os

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")


class Face:
    """General words, for no API in particular. A face overrides what its API says differently."""

    # Loggers are called <name>.flush and so on, the root span <name>.session; every line begins
    # with [<name>].
    name = "sonde"
    # Classes that the hooks hand to frameworks are called <class_prefix>KerasCallback and so on.
    class_prefix = "Sonde"
    # Where a session writes unless it is told otherwise.
    directory = "./.sonde/"
    # Environment variables of this API are called <variable_prefix>RUN_ID and so on.
    variable_prefix = "SONDE_"
    # Ids that the platform of this API gives a run, each in an environment variable.
    platform_ids: tuple[str, ...] = ()
    # What health reports as the transport of a session that sends its batches nowhere.
    file_transport = "files"

    # Options of sonde.request.Request that this API calls differently.
    option_names: Mapping[str, str] = {}

    # What to do about a kind of trouble, by the key of its message. engine/base/advice.h lists the
    # keys, with the words for an API that has none here.
    advice: Mapping[str, str] = {}
    # How a program writes the calls that messages name: "start", "stop", "frameworks", "watch",
    # "wrap", "table".
    calls: Mapping[str, str] = {}

    @property
    def prefix(self) -> str:
        return f"[{self.name}] "

    def for_engine(self) -> dict[str, object]:
        """What the engine needs of it."""
        return {"name": self.name, "advice": dict(self.advice)}

    def advise(self, key: str) -> str:
        """What a user of this API can do, as the end of a sentence."""
        return self.advice.get(key) or _GENERAL_ADVICE[key]

    def call(self, key: str, general: str) -> str:
        """How a user of this API writes a call."""
        return self.calls.get(key, general)

    def option(self, name: str) -> str:
        """What this API calls an option of a session."""
        return self.option_names.get(name, name)

    def variable(self, name: str) -> str:
        """The environment variable for a setting or an id."""
        return self.variable_prefix + name.upper()

    def platform_context(self) -> dict[str, str]:
        """Ids that the platform gave this run; what is not set is left out."""
        values = {key: os.environ.get(self.variable(key), "") for key in self.platform_ids}
        return {key: value for key, value in values.items() if value}

    def stream(self, platform: Mapping[str, str]) -> str | None:
        """The name of the transport that a session of this API would send its batches to, if any.

        Unlike ``transport``, this opens nothing.
        """
        return None

    def transport(
        self, platform: Mapping[str, str], spool_dir: str | None
    ) -> tuple[str, Callable[[str], None] | None]:
        """The name of the transport, and the function that takes the batches, if there is one."""
        return self.file_transport, None

    def session_begins(self) -> None:
        """Called before a session begins. The face may have something to say."""


_GENERAL_ADVICE = _core.session.general_advice()
_current = Face()


def current() -> Face:
    """The face of the session, or of the last one, or of the API that was imported first."""
    return _current


def use(face: Face) -> None:
    """From now on this package speaks as ``face``."""
    global _current
    _current = face


def introduce(face: Face) -> bool:
    """An API was imported. True if it is the first, and this package now speaks as it."""
    if type(_current) is not Face:
        return False
    use(face)
    return True


def named(made: type[T], name: str) -> type[T]:
    """Gives a class that frameworks show to the user a name of the current face."""
    made.__name__ = made.__qualname__ = _current.class_prefix + name
    return made
