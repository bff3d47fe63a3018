"""The feature flags of the open session, as one mapping that programs may keep."""

from __future__ import annotations

from collections.abc import Mapping

from sonde import session

from cirron.face import FACE
from cirron.instance import Profiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class LiveFlags(Mapping[str, object]):
    """Reads through to the ``config`` of the open handle; empty while there is none."""

    __slots__ = ()

    def __getitem__(self, key: str) -> object:
        return self._flags()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags())

    def __len__(self) -> int:
        return len(self._flags())

    def __repr__(self) -> str:
        return repr(dict(self._flags()))

    def _flags(self) -> Mapping[str, object]:
        handle = session.handle_of(FACE)
        return handle.config if isinstance(handle, Profiler) else {}
