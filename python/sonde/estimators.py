"""scikit-learn estimators whose calls are scopes.

What ``wrap`` returns is an estimator of its own: a shallow copy whose class is made from the
estimator's class and differs from it in nothing but the calls below. So it is an instance of that
class, has its parameters, its name and its repr, and goes wherever an estimator goes: clones,
searches, pipelines, pickles, other processes.
"""

from __future__ import annotations

from types import MethodType

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex, TypeVar

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
# Where pipelines, unions and column transformers keep their parts: (name, estimator, ...) each.
PARTS = ("steps", "transformer_list", "transformers", "transformers_")

# These have fit() too, and hooks of their own.
HOOKED = {"keras", "tensorflow", "lightning", "pytorch_lightning"}


def wrap(estimator: T) -> T:
    """A copy of a scikit-learn estimator whose calls are scopes; the one given stays as it is.

    ``fit``, ``predict``, ``transform``, ``score`` and their relatives run inside
    ``scope(<method>, estimator=<class>)``, and so do those of the steps of a pipeline and of the
    transformers of a union. Everything else is the estimator's own. One that is wrapped already is
    returned.
    """
    if isinstance(estimator, _Timed):
        return estimator
    if (problem := _why_not(estimator)) is not None:
        raise TypeError(f"ci.wrap() takes a scikit-learn estimator, {problem}")
    from copy import copy

    twin: Any = copy(estimator)
    own = vars(twin)
    for name in PARTS:
        if isinstance(own.get(name), list):
            own[name] = [_wrap_parts(part) for part in own[name]]
    twin.__class__ = _timed_class(type(estimator))
    wrapped: T = twin
    return wrapped


def _why_not(candidate: object) -> str | None:
    if isinstance(candidate, type):
        return f"not a class: ci.wrap({candidate.__name__}(...))"
    kind = type(candidate)
    if not callable(getattr(candidate, "fit", None)):
        return f"not {kind.__name__}: it has no fit()"
    if HOOKED & {base.__module__.partition(".")[0] for base in kind.__mro__}:
        return f"not {kind.__name__}: ci.profile() follows that by itself"
    return None


def _wrap_parts(part: Any) -> Any:
    if not isinstance(part, tuple):
        return part
    return tuple(wrap(each) if _why_not(each) is None else each for each in part)


class _Timed:
    """First base of every class made here."""

    def __init_subclass__(cls) -> None:
        # That of the estimators would prepare the class as if it were a new kind of estimator; it
        # inherits what was prepared.
        pass

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """The class cannot be found by its name: it is made again where the object arrives."""
        from copyreg import __newobj__  # type: ignore[attr-defined]

        reduced = super().__reduce_ex__(max(int(protocol), 2))
        if isinstance(reduced, str):
            return reduced
        function, args, *rest = reduced
        kind = type(self)
        if function is __newobj__ and args[0] is kind:
            return _new, (kind.__bases__[1], *args[1:]), *rest
        if function is kind:
            return _construct, (kind.__bases__[1], *args), *rest
        return reduced


def _new(original: type, *args: object) -> object:
    kind = _timed_class(original)
    return kind.__new__(kind, *args)


def _construct(original: type, *args: object) -> object:
    return _timed_class(original)(*args)


class _TimedCall:
    """A method in a scope. It is there when the original is: many are only under a condition."""

    __slots__ = ("_original", "_timed")

    def __init__(self, name: str, original: Any, function: Any) -> None:
        from functools import update_wrapper

        def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
            with _core.scope(name, estimator=type(self).__name__):
                return original.__get__(self, type(self))(*args, **kwargs)

        self._original = original
        self._timed = update_wrapper(timed, function)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        plain = self._original.__get__(instance, owner)
        return plain if instance is None else MethodType(self._timed, instance)


# original -> ours. Ours holds on to the original, so it must be what goes first.
_classes: Any = None


def _timed_class(original: type) -> type:
    global _classes
    if _classes is None:
        from weakref import WeakValueDictionary

        _classes = WeakValueDictionary()
    known: type | None = _classes.get(original)
    if known is not None:
        return known
    names = ("__module__", "__qualname__", "__doc__")
    made: type = type(original)(
        original.__name__, (_Timed, original), {name: getattr(original, name) for name in names}
    )
    for name in CALLS:
        raw = next((vars(base)[name] for base in original.__mro__ if name in vars(base)), None)
        function = getattr(original, name, None)
        if callable(function) and hasattr(raw, "__get__"):
            setattr(made, name, _TimedCall(name, raw, function))
    result: type = _classes.setdefault(original, made)
    return result
