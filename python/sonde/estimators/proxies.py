"""Proxies: for estimators whose state lies in C, or that are themselves a list or a dict.

A second object cannot share such state, so a proxy hands everything on to the estimator. Its
``__class__`` is that of the estimator. Calls that the estimator makes on itself are not recorded.
"""

from __future__ import annotations

from sonde import _core
from sonde.estimators.wrapped import CALLS, Wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Special methods that are about the proxy itself, and are not handed on.
OWN = {
    "__class__",
    "__copy__",
    "__deepcopy__",
    "__del__",
    "__delattr__",
    "__dict__",
    "__doc__",
    "__getattr__",
    "__getattribute__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__getstate__",
    "__init__",
    "__init_subclass__",
    "__module__",
    "__new__",
    "__qualname__",
    "__reduce__",
    "__reduce_ex__",
    "__setattr__",
    "__setstate__",
    "__sklearn_clone__",
    "__slots__",
    "__subclasshook__",
    "__weakref__",
}


class Proxy(Wrapped):
    """Base of the proxies of all classes."""

    __slots__ = ("__weakref__", "_sonde_kept")

    def __getattr__(self, name: str) -> Any:
        given = self._sonde_given
        value = getattr(given, name)
        return timed(self, name, value) if name in CALLS and callable(value) else value

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._sonde_given, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._sonde_given, name)

    def _sonde_attached(self) -> None:
        pass


def timed(proxy: Any, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    from functools import update_wrapper

    given = proxy._sonde_given

    def run(*args: Any, **kwargs: Any) -> Any:
        with _core.scope(name, estimator=type(given).__name__):
            result = call(*args, **kwargs)
        return proxy if result is given else result

    return update_wrapper(run, call)


def proxy_class(original: type) -> type:
    """The class of the proxies for estimators of this class."""
    names = ("__module__", "__qualname__", "__doc__")
    own: dict[str, Any] = {name: getattr(original, name) for name in names}
    own["__slots__"] = ()
    own["__class__"] = property(lambda self: original)
    for name in dir(original):
        special = name.startswith("__") and name.endswith("__") and name not in OWN
        if special and callable(getattr(original, name, None)):
            own[name] = _handed_on(name)
    return type(original.__name__, (Proxy,), own)


def _handed_on(name: str) -> Callable[..., Any]:
    """A special method, such as ``__len__``: the interpreter looks for those on the class."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = self._sonde_given
        others = [each._sonde_given if isinstance(each, Wrapped) else each for each in args]
        return getattr(type(given), name)(given, *others, **kwargs)

    method.__name__ = name
    return method
