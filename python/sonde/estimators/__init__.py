"""scikit-learn estimators whose calls are scopes.

``wrap`` returns a second object that stands for the estimator it was given: what is fitted, set or
read through one is fitted, set or read on the other. Mostly that is a twin, of a class made from
the estimator's own, with the same ``__dict__`` (``twins``). An estimator whose state is not
Python's has a proxy instead (``proxies``).
"""

from __future__ import annotations

from sonde import face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex, TypeVar
    from weakref import ReferenceType

    T = TypeVar("T")

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

# These have fit() too, and hooks of their own.
HOOKED = {"keras", "tensorflow", "lightning", "pytorch_lightning"}


def wrap(estimator: T) -> T:
    """A scikit-learn estimator whose calls are scopes; what it does, it does to the one given.

    ``fit``, ``predict``, ``transform``, ``score`` and their relatives run inside
    ``scope(<method>, estimator=<class>)``, and so do those of the steps of a pipeline and of the
    transformers of a union. Everything else is the estimator's own: fitting what is returned fits
    the estimator that was given. Calls on that one itself are not recorded. Wrapped again, the same
    is returned.
    """
    if isinstance(estimator, Wrapped):
        return estimator
    if (problem := why_not(estimator)) is not None:
        raise TypeError(f"{_wrap()}() takes a scikit-learn estimator, {problem}")
    known = _known.get(id(estimator))
    wrapped: Any = known() if known is not None else None
    if wrapped is None:
        from sonde.estimators.twins import make_twin

        wrapped = make_twin(estimator)
    found: T = wrapped
    return found


def why_not(candidate: object) -> str | None:
    """What keeps this from being wrapped, or None."""
    if isinstance(candidate, type):
        return f"not a class: {_wrap()}({candidate.__name__}(...))"
    kind = type(candidate)
    if not callable(getattr(candidate, "fit", None)):
        return f"not {kind.__name__}: it has no fit()"
    start = face.current().call("start", "the profiler")
    if HOOKED & {base.__module__.partition(".")[0] for base in kind.__mro__}:
        return f"not {kind.__name__}: {start} follows that by itself"
    return None


class Wrapped:
    """First base of every class made here."""

    __slots__ = ()

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
        # That of the estimators would prepare the class as if it were a new kind of estimator; it
        # inherits what was prepared.
        pass

    def __copy__(self) -> Any:
        from copy import copy

        return wrap(copy(self._sonde_given))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from copy import deepcopy

        return wrap(deepcopy(self._sonde_given, memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """In two steps, because the estimator may refer to what stands for it."""
        given = self._sonde_given
        return blank, (type(given),), given, None, None, attach

    @property
    def __sklearn_clone__(self) -> Any:
        given = self._sonde_given
        if not hasattr(given, "get_params") and not hasattr(given, "__sklearn_clone__"):
            raise AttributeError("__sklearn_clone__")

        def clone_wrapped() -> Any:
            from importlib import import_module

            return wrap(import_module("sklearn.base").clone(given))

        return clone_wrapped


def blank(original: type) -> Any:
    """What will stand for an estimator of this class, once it is attached to one."""
    from sonde.estimators.twins import timed_class

    made = timed_class(original)
    return object.__new__(made)


# id of an estimator -> what stands for it, which holds on to it: so nobody else has that id.
_known: dict[int, ReferenceType[Any]] = {}


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


def _wrap() -> str:
    return face.current().call("wrap", "wrap")
