"""The ``Cirron`` class: one set of settings, and the API as its methods."""

from __future__ import annotations

from sonde import _core, estimators, session
from sonde.errors import MissingPackageError
from sonde.request import OPTIONS

from cirron.errors import CirronDependencyError
from cirron.face import FACE, CirronFace
from cirron.health_keys import health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from typing import Any, Literal, TypeVar

    T = TypeVar("T")
    SnapshotMode = Literal["stats", "sampled", "full", "off"]


class Profiler(session.Handle):
    """Handle of a session, returned by ``profile()``. Most programs never look at it."""

    __slots__ = ("_cirron", "_config")

    def __init__(self, cirron: Cirron, enabled: bool, config: object) -> None:
        super().__init__(enabled)
        self._cirron = cirron
        self._config = _read_only(config, enabled)

    @property
    def cirron(self) -> Cirron:
        """The instance whose settings the session uses."""
        return self._cirron

    @property
    def config(self) -> Mapping[str, object]:
        """The program's feature flags, as they were when the session began. Read-only."""
        return self._config

    @property
    def installed_hooks(self) -> list[str]:
        """Names of the framework hooks, in the order of their installation.

        Each is put in place when the program imports its framework.
        """
        return [hook.name for hook in self.state().hooks]

    @property
    def hook_handles(self) -> list[object]:
        """The hooks themselves, each with ``name``, ``active`` and ``uninstall()``."""
        return list(self.state().hooks)

    @property
    def platform_context(self) -> dict[str, str]:
        """Ids the platform gave this run."""
        return self.state().platform

    def health(self) -> dict[str, Any]:
        """State and losses. Never raises, never waits."""
        return health(self.state())

    def trace(
        self,
        format: str = "tree",
        name: str | None = None,
        last: int | None = None,
        summary: bool = False,
    ) -> Any:
        """The spans of the session; see ``cirron.trace``."""
        return trace(format, name, last, summary)


def trace(
    format: str = "tree", name: str | None = None, last: int | None = None, summary: bool = False
) -> Any:
    from sonde import readback

    try:
        return readback.trace(format, name, last, summary, FACE)
    except MissingPackageError as error:
        raise CirronDependencyError(str(error)) from error


def wrap(estimator: T) -> T:
    """A scikit-learn estimator whose calls are scopes; it works on the estimator that is given.

    ``fit``, ``predict``, ``transform``, ``score`` and their relatives run inside
    ``scope(<method>, estimator=<class>)``, and so do those of the steps of a pipeline and of the
    transformers of a union. Everything else is the estimator's own: fitting what is returned fits
    the estimator that was given. Calls on the given estimator itself are not recorded. Wrapping it
    again returns the same object.
    """
    return estimators.wrap(estimator, FACE)


class Cirron:
    """Settings for ``profile()``, resolved when the instance is made.

    A setting is the argument, otherwise the ``CIRRON_*`` variable, otherwise what
    ``~/.cirron/config.toml`` says, otherwise the default. Each is an attribute of that name.
    Recording is process-wide, and all instances share it; the instance whose ``profile()`` opened
    the session decides where the records go.
    """

    api_key: str | None
    api_endpoint: str
    workspace_id: str | None
    output_dir: str | PathLike[str]
    snapshots: SnapshotMode
    sample_rate: float
    flush_interval: float
    spool_max_bytes: int
    ingest_path: str
    load_warn_bytes: int
    load_max_bytes: int
    output: str | Iterable[str] | None
    trace_buffer_max_spans: int | None

    def __init__(
        self,
        api_key: str | None = None,
        api_endpoint: str | None = None,
        workspace_id: str | None = None,
        output_dir: str | PathLike[str] | None = None,
        snapshots: SnapshotMode | None = None,
        sample_rate: float | None = None,
        flush_interval: float | None = None,
        spool_max_bytes: int | None = None,
        ingest_path: str | None = None,
        load_warn_bytes: int | None = None,
        load_max_bytes: int | None = None,
        output: str | Iterable[str] | None = None,
        trace_buffer_max_spans: int | None = None,
    ) -> None:
        from cirron import settings

        arguments = {name: value for name, value in locals().items() if name in settings.SETTINGS}
        self.__dict__.update(settings.resolve(arguments))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(output_dir={self.output_dir!r})"  # without the API key

    def profile(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        frameworks: list[str] | None = None,
        snapshots: SnapshotMode | None = None,
        sample_rate: float | None = None,
        flush_interval: float | None = None,
        enabled: bool = True,
        path: str | PathLike[str] | None = None,
        output: str | Iterable[str] | None = None,
    ) -> Profiler:
        """``cirron.profile`` with the settings of this instance."""
        given = {name: value for name, value in locals().items() if value is not None}
        face = CirronFace(has_api_key=bool(self.api_key), flags=config)
        values = vars(self) | given | {"path": path or self.output_dir}
        wanted = {option: values.get(face.option(option)) for option in OPTIONS}
        wanted["hook_options"] = _hook_options(config)

        def make(enabled: bool) -> Profiler:
            return Profiler(self, enabled, config)

        return session.begin(face, make, wanted, enabled=enabled)

    if not TYPE_CHECKING:  # with it, a type checker would accept every name

        def __getattr__(self, name: str) -> object:
            from cirron.missing import METHODS, explain

            owner = f"{type(self).__name__!r} object"
            if name in METHODS:
                raise AttributeError(explain(owner, name), name=name, obj=self)
            raise AttributeError(f"{owner} has no attribute {name!r}", name=name, obj=self)

    # These are the functions of the engine: a wrapper would cost more than the recording.
    scope = staticmethod(_core.scope)
    mark = staticmethod(_core.mark)
    epochs = staticmethod(_core.epochs)
    batches = staticmethod(_core.batches)
    trace = staticmethod(trace)
    wrap = staticmethod(wrap)


def _read_only(config: object, enabled: bool) -> Mapping[str, object]:
    """A copy of the program's feature flags. A profiler that is switched off never raises."""
    from types import MappingProxyType

    if config is None:
        return MappingProxyType({})
    from cirron.flags import checked

    try:
        return MappingProxyType(dict(checked(config)))
    except TypeError:
        if enabled:
            raise
        return MappingProxyType({})


def _hook_options(flags: object) -> dict[str, dict[str, object]] | None:
    if not flags:
        return None
    from cirron.flags import hook_options_in

    return hook_options_in(flags)


_default: Cirron | None = None


def get_default() -> Cirron:
    """The instance that the functions of the module use. It is made at the first call.

    There is no lock, which a fork or a signal handler could meet while it is held: threads that
    come at the same time resolve the same settings, and one of their instances is kept.
    """
    global _default
    if _default is None:
        made = Cirron()
        _default = _default or made
    return _default
