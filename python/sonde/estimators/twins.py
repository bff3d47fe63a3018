"""Twins: second objects with the state of an estimator, whose calls are recorded.

The ``__dict__`` of a twin is that of the estimator, slots are read and written on the estimator,
and its class is a subclass with the same name. So a twin is an instance of the estimator's class,
has the same parameters, name and repr, and can be used wherever the estimator can.
"""

from __future__ import annotations

from types import MemberDescriptorType, MethodType

from sonde import _core
from sonde.estimators.parts import PARTS, PartsField
from sonde.estimators.wrapped import CALLS, Wrapped, attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
POINTER = tuple.__itemsize__


def make_twin(given: Any) -> Any:
    """A twin of this estimator, or a proxy for it."""
    twin: Any = object.__new__(timed_class(type(given)))
    attach(twin, given)
    return twin


class TimedCall:
    """A method in a scope. It exists whenever the original does; some exist under a condition."""

    __slots__ = ("_original", "_timed")

    def __init__(self, name: str, original: Any, function: Any) -> None:
        from functools import update_wrapper

        def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
            getattr(self, "__dict__", None)  # see SharedDict
            with _core.scope(name, estimator=type(self).__name__):
                return original.__get__(self, type(self))(*args, **kwargs)

        self._original = original
        self._timed = update_wrapper(timed, function)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        plain = self._original.__get__(instance, owner)
        return plain if instance is None else MethodType(self._timed, instance)


class SharedDict:
    """``__dict__`` of a twin. Replacing it replaces the estimator's; reading it gives the dict that
    the estimator has now."""

    __slots__ = ("real",)

    def __init__(self, real: Any) -> None:
        self.real = real

    def __get__(self, twin: Any, owner: type | None = None) -> Any:
        if twin is None:
            return self
        shared = twin._sonde_given.__dict__
        if self.real.__get__(twin) is not shared:
            self.real.__set__(twin, shared)
        return shared

    def __set__(self, twin: Any, state: dict[str, Any]) -> None:
        twin._sonde_given.__dict__ = state
        self.real.__set__(twin, state)


class SharedSlot:
    """A slot of the estimator's class. It is read and written on the estimator."""

    __slots__ = ("_member",)

    def __init__(self, member: Any) -> None:
        self._member = member

    def __get__(self, twin: Any, owner: type | None = None) -> Any:
        return self if twin is None else self._member.__get__(twin._sonde_given, owner)

    def __set__(self, twin: Any, value: object) -> None:
        self._member.__set__(twin._sonde_given, value)

    def __delete__(self, twin: Any) -> None:
        self._member.__delete__(twin._sonde_given)


# Class of estimators -> class of their twins, which refers to the former: so the values are weak.
_classes: Any = None


def timed_class(original: type) -> type:
    """The class of the twins or proxies of estimators of this class."""
    global _classes
    if _classes is None:
        from weakref import WeakValueDictionary

        _classes = WeakValueDictionary()
    known: type | None = _classes.get(original)
    if known is not None:
        return known
    made = _make_class(original) if _state_is_python(original) else None
    if made is None:
        from sonde.estimators.proxies import proxy_class

        made = proxy_class(original)
    result: type = _classes.setdefault(original, made)
    return result


def _state_is_python(kind: type) -> bool:
    """Whether all an instance has is its dict and its slots, which can be shared."""
    if not all(base.__flags__ & HEAP_TYPE for base in kind.__mro__[:-1]):
        return False
    pointers = len(_slots(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return (
        kind.__itemsize__ == 0 and kind.__basicsize__ == object.__basicsize__ + pointers * POINTER
    )


def _slots(kind: type) -> list[tuple[str, Any]]:
    """Slots, those of the bases first."""
    return [
        (name, member)
        for base in reversed(kind.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
    ]


def _make_class(original: type) -> type | None:
    try:
        made: Any = type(original)(original.__name__, (Wrapped, original), _namespace(original))
    except Exception:  # a class that cannot be inherited from
        return None
    del made.__slots__  # scikit-learn refuses estimators that have some
    for name in CALLS:
        raw = _look_up(original, name)
        function = getattr(original, name, None)
        if callable(function) and hasattr(raw, "__get__"):
            setattr(made, name, TimedCall(name, raw, function))
    kind: type = made
    return kind


def _namespace(original: Any) -> dict[str, Any]:
    own = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    slots = ["_sonde_kept", "_sonde_parts"]
    if original.__weakrefoffset__ == 0:
        slots.append("__weakref__")
    own |= {"__slots__": slots, "_sonde_born": _give_birth, "_sonde_attached": _share}
    own |= {name: SharedSlot(member) for name, member in _slots(original)}
    if (real := _look_up(original, "__dict__")) is not None:
        own["__dict__"] = SharedDict(real)
        own |= {name: PartsField(name) for name in PARTS if _look_up(original, name) is None}
    if hasattr(original, "__del__"):
        own["__del__"] = lambda self: None  # the estimator outlives the twin
    return own


def _look_up(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__[:-1] if name in vars(base)), None)


def _share(twin: Any) -> None:
    type(twin)._sonde_parts.__set__(twin, {})  # past a __setattr__ of the estimator's
    getattr(twin, "__dict__", None)


def _give_birth(twin: Any) -> Any:
    """An estimator for a twin that was made without one: by ``type(twin)(...)``, as for a slice of
    a pipeline."""
    kinds = type(twin).__mro__
    given: Any = object.__new__(kinds[kinds.index(Wrapped) + 1])
    if (shared := _look_up(type(twin), "__dict__")) is not None:
        given.__dict__ = shared.real.__get__(twin)
    return given
