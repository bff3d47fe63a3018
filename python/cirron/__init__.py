"""The Cirron API on the Sonde engine.

``import cirron as ci``, ``ci.profile()``, and after some training ``ci.trace()``: that is all.
"""

from __future__ import annotations

from sonde import session
from sonde._core import __version__ as __version__
from sonde._core import batches, epochs, mark, scope
from sonde.session import flush

from cirron.errors import (
    CirronDependencyError,
    CirronError,
    CirronSecretNotFound,
    CirronYamlError,
)
from cirron.face import FACE
from cirron.health_keys import health as _health_of
from cirron.instance import Cirron, Profiler, get_default, wrap
from cirron.live_flags import LiveFlags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from typing import Any

    from cirron.instance import SnapshotMode

__all__ = [
    "Cirron",
    "CirronDependencyError",
    "CirronError",
    "CirronSecretNotFound",
    "CirronYamlError",
    "Profiler",
    "batches",
    "config",
    "epochs",
    "flush",
    "get_default",
    "health",
    "mark",
    "profile",
    "scope",
    "shutdown",
    "trace",
    "watch",
    "wrap",
]

if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> object:
        from cirron.missing import NAMES, explain, is_import

        if name not in NAMES:
            raise AttributeError(f"module 'cirron' has no attribute {name!r}", name=name)
        # `from cirron import load` would replace the text of an AttributeError by another.
        kind = ImportError if is_import() else AttributeError
        raise kind(explain("module 'cirron'", name), name=name)


session.introduce(FACE)

config: Mapping[str, Any] = LiveFlags()
"""The feature flags given to ``profile(config=...)``; empty while no session is open."""


def profile(
    config: Mapping[str, Any] | None = None,
    frameworks: list[str] | None = None,
    snapshots: SnapshotMode | None = None,
    sample_rate: float | None = None,
    flush_interval: float | None = None,
    enabled: bool = True,
    path: str | PathLike[str] | None = None,
    output: str | Iterable[str] | None = None,
) -> Profiler:
    """Starts profiling this process. Call it once; a second call only warns.

    ``config``: feature flags of your own, read back as ``ci.config``.
    ``frameworks``: hooks to install instead of the detected ones.
    ``snapshots``: ``"stats"``, ``"sampled"``, ``"full"`` or ``"off"``.
    ``sample_rate``: share of epochs whose tensors are kept whole.
    ``flush_interval``: seconds between writes.
    ``enabled=False``: record nothing.
    ``path``: output directory, ``./.cirron/`` by default.
    ``output``: ``"spool"``, ``"log"``, ``"stdout"``, ``"none"`` or a list of them.
    An argument that is None is taken from the instance's settings.
    """
    return get_default().profile(**locals())


def shutdown() -> None:
    """Ends the session, and writes everything.

    If another API began it, this one leaves, and the session goes on.
    """
    session.shutdown(FACE)


def health() -> dict[str, Any]:
    """State and losses of the open session; without one, the same keys with nothing in them."""
    return _health_of(session.state(FACE))


def watch(model: object, name: str | None = None) -> None:
    """Capture the weights and gradients of this model at the end of every epoch.

    Usually this is not needed: Keras, transformers and Lightning name their model themselves, and
    in a plain loop the models that an optimizer trains are found. With several models, the name of
    each tensor begins with ``name``, or with the name of the model's class. The model is not kept
    alive. Without a session it is remembered for the next one. Never raises.
    """
    session.watch(FACE, model, name)


def trace(
    format: str = "tree", name: str | None = None, last: int | None = None, summary: bool = False
) -> Any:
    """The spans of this session, from inside the process.

    ``format``: ``"tree"`` prints the text (a notebook cell shows it), ``"dict"`` is nested dicts,
    ``"json"`` a string, ``"df"`` a pandas DataFrame, ``"arrow"`` an object with
    ``__arrow_c_stream__`` for pyarrow, polars, duckdb and pandas.
    ``name`` keeps the spans of that name and what is below them, ``last`` the N that closed last.
    ``summary=True`` adds them up by name, as ``sonde trace --summary`` does, in the same formats.
    """
    return get_default().trace(format, name, last, summary)
