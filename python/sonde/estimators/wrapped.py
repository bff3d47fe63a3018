"""What twins and proxies have in common: they stand for an estimator that was given."""

from __future__ import annotations

from sonde import face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, SupportsIndex
    from weakref import ReferenceType

    from sonde.face import Face

CALLS = (
    "fit",
    "partial_fit",
    "fit_transform",
    "fit_predict",
    "transform",
    "inverse_transform",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score",
)

# Packages whose classes have fit() too, and that have hooks.
HOOKED = {"keras", "tensorflow", "lightning", "pytorch_lightning"}


def why_not(candidate: object, speaker: Face | None = None) -> str | None:
    """What keeps this from being wrapped, or None."""
    if isinstance(candidate, type):
        return f"not a class: {call_of_wrap(speaker)}({candidate.__name__}(...))"
    kind = type(candidate)
    if not callable(getattr(candidate, "fit", None)):
        return f"not {kind.__name__}: it has no fit()"
    start = (speaker or face.current()).call("start", "the profiler")
    if HOOKED & {base.__module__.partition(".")[0] for base in kind.__mro__}:
        return f"not {kind.__name__}: {start} records it without a wrapper"
    return None


class Wrapped:
    """First base of the classes of twins and of proxies."""

    __slots__ = ()

    # ``wrap`` and ``blank`` of the package, which need the classes that are made from this one.
    _sonde_wrap: ClassVar[Callable[[Any], Any]]
    _sonde_blank: ClassVar[Callable[[type], Any]]

    @property
    def _sonde_given(self) -> Any:
        """The estimator it stands for."""
        kind: Any = type(self)
        try:
            return kind._sonde_kept.__get__(self)
        except AttributeError:
            attach(self, kind._sonde_born(self))
            return kind._sonde_kept.__get__(self)

    def __init_subclass__(cls) -> None:
        # The estimators' own version would set the class up as a new kind of estimator. It inherits
        # what was set up for theirs.
        pass

    def __copy__(self) -> Any:
        from copy import copy

        return Wrapped._sonde_wrap(copy(self._sonde_given))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from copy import deepcopy

        return Wrapped._sonde_wrap(deepcopy(self._sonde_given, memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """In two steps, because the estimator may refer to the object that stands for it."""
        given = self._sonde_given
        return Wrapped._sonde_blank, (type(given),), given, None, None, attach

    @property
    def __sklearn_clone__(self) -> Any:
        given = self._sonde_given
        if not hasattr(given, "get_params") and not hasattr(given, "__sklearn_clone__"):
            raise AttributeError("__sklearn_clone__")

        def clone_wrapped() -> Any:
            from importlib import import_module

            return Wrapped._sonde_wrap(import_module("sklearn.base").clone(given))

        return clone_wrapped


# id of an estimator -> the object that stands for it. While that object lives, it keeps the
# estimator alive, so no other object has this id.
_known: dict[int, ReferenceType[Any]] = {}


def standing_for(given: object) -> Any:
    """The object that stands for this estimator, or None."""
    reference = _known.get(id(given))
    return None if reference is None else reference()


def attach(wrapped: Any, given: Any) -> None:
    """From here on ``wrapped`` stands for ``given``."""
    from weakref import ref

    key = id(given)

    def forget(reference: ReferenceType[Any]) -> None:
        if _known.get(key) is reference:
            del _known[key]

    type(wrapped)._sonde_kept.__set__(wrapped, given)
    type(wrapped)._sonde_attached(wrapped)
    _known[key] = ref(wrapped, forget)


def call_of_wrap(speaker: Face | None = None) -> str:
    """How a program writes the call of ``wrap``."""
    return (speaker or face.current()).call("wrap", "wrap")
