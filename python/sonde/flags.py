"""The feature flags that an API was started with, as one mapping that programs may keep."""

from __future__ import annotations

from collections.abc import Mapping

from sonde import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sonde.face import Face


class LiveFlags(Mapping[str, object]):
    """Reads through to the ``config`` of the API's open handle; empty while there is none."""

    __slots__ = ("_speaker",)

    def __init__(self, speaker: Face) -> None:
        self._speaker = speaker

    def __getitem__(self, key: str) -> object:
        return self._flags()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags())

    def __len__(self) -> int:
        return len(self._flags())

    def __repr__(self) -> str:
        return repr(dict(self._flags()))

    def _flags(self) -> Mapping[str, object]:
        profiler = session.handle_of(self._speaker)
        return {} if profiler is None else profiler.config
