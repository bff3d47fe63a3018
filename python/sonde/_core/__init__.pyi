"""The C++ engine as Python sees it. Everything here may be called from any thread.

What programs call stands here, what ``sonde`` itself calls in the groups.
"""

# ruff: noqa: N801  (the classes are called like functions, as in the APIs that users write against)

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar, final

from sonde._core import attrs as attrs
from sonde._core import device as device
from sonde._core import jax as jax
from sonde._core import loops as loops
from sonde._core import scopes as scopes
from sonde._core import session as session
from sonde._core import snapshots as snapshots
from sonde._core import torch as torch
from sonde._core import trace as trace

_T = TypeVar("_T")

__version__: str

@final
class scope:
    """A named region: context manager and live span in one.

    The span opens at ``__enter__``, which returns the scope itself, or ``None`` when 64 scopes are
    already open on this thread (or task). ``__exit__`` closes that span, whatever else is open, and
    never swallows an exception. A scope object may be used again, also inside itself.
    """

    def __new__(cls, name: str, index: int | None = None, **attrs: object) -> Self: ...
    def __call__(self, *exc: object) -> object:
        """How ``with`` enters and leaves; not for programs."""
    def __enter__(self) -> scope | None: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def id(self) -> str | None:
        """32 lowercase hexadecimal digits; None before the first ``__enter__``."""
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def attrs(self) -> dict[str, object]:
        """The attributes; may be changed until the span closes."""
    @property
    def parent_id(self) -> str | None: ...
    @property
    def start_ns(self) -> int | None:
        """Wall-clock nanoseconds."""
    @property
    def end_ns(self) -> int | None: ...
    @property
    def cpu_ns(self) -> int | None: ...
    @property
    def gpu_ns(self) -> int | None: ...
    @property
    def memory_peak_bytes(self) -> int | None: ...
    @property
    def thread_id(self) -> int | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def marks(self) -> list[str]:
        """Ids of the marks made on this span so far."""

@final
class epochs(Generic[_T], Iterator[_T]):
    """Yields the items of ``iterable`` unchanged, each in a scope ``epoch[0]``, ``epoch[1]``..."""

    def __new__(cls, iterable: Iterable[_T]) -> Self: ...
    def __iter__(self) -> epochs[_T]: ...
    def __next__(self) -> _T: ...
    def __len__(self) -> int: ...
    def __length_hint__(self) -> int: ...
    def close(self) -> None:
        """Closes the scope of the current item and ends the iteration."""

@final
class batches(Generic[_T], Iterator[_T]):
    """Yields the items of ``iterable`` unchanged, each in a scope ``batch[0]``, ``batch[1]``...

    The batch of a ``torch.utils.data.DataLoader`` carries the attribute ``data_load_ns``: the
    nanoseconds spent waiting for it.
    """

    def __new__(cls, iterable: Iterable[_T]) -> Self: ...
    def __iter__(self) -> batches[_T]: ...
    def __next__(self) -> _T: ...
    def __len__(self) -> int: ...
    def __length_hint__(self) -> int: ...
    def close(self) -> None:
        """Closes the scope of the current item and ends the iteration."""

def mark(name: str, value: object, *, kind: str = "point", **attrs: object) -> None:
    """Attaches a value to the innermost open scope, or to the session when none is open.

    ``value``: float, int, str (cut at 256 UTF-8 bytes), bool, or a numpy or torch scalar.
    ``kind``: ``"point"`` for a series, ``"summary"`` for one final value.
    """
