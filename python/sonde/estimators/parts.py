"""The parts of a pipeline, a union or a column transformer, as its twin shows them.

The pipeline that was given keeps its own steps, unwrapped. Its twin has a list of the same length
in which each of them is wrapped, and what is changed in that list is changed in the pipeline's.
"""

from __future__ import annotations

from sonde.estimators.wrapped import Wrapped, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    AnyList = list[Any]
else:
    AnyList = list

# (name, estimator, ...) each.
PARTS = ("steps", "transformer_list", "transformers", "transformers_")


class PartsField:
    """The attribute of the twin: the estimator's own list, seen through wrappers."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, twin: Any, owner: type | None = None) -> Any:
        state = {} if twin is None else twin.__dict__
        if self._name not in state:
            kind = owner if twin is None else type(twin)
            raise AttributeError(f"{getattr(kind, '__name__', kind)} has no {self._name!r}")
        plain = state[self._name]
        if not isinstance(plain, list):
            return plain
        shown = twin._sonde_parts.get(self._name)
        if shown is None or not shown.shows(plain):
            shown = twin._sonde_parts[self._name] = Parts(plain)
        return plain if shown.nothing_wrapped else shown

    def __set__(self, twin: Any, value: object) -> None:
        state = twin.__dict__
        if isinstance(value, Parts):
            value = value.plain if value.plain is state.get(self._name) else list(value)
        if isinstance(value, list):
            by_user = wrapped_by_user(state.get(self._name))
            plain = [unwrap_part(part, by_user) for part in value]
            value = value if same_items(plain, value) else plain
        state[self._name] = value

    def __delete__(self, twin: Any) -> None:
        try:
            del twin.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None


class Parts(AnyList):
    """A list of wrapped parts; ``plain`` is the one it stands for."""

    __slots__ = ("_seen", "_shown", "plain")

    def __init__(self, plain: list[Any]) -> None:
        self.plain = plain
        self._show()

    def _show(self) -> None:
        self._seen = list(self.plain)
        self._shown = [wrap_part(part) for part in self._seen]
        list.__setitem__(self, slice(None), self._shown)

    def shows(self, plain: list[Any]) -> bool:
        """Whether nothing has changed in the list it stands for."""
        return self.plain is plain and same_items(plain, self._seen)

    @property
    def nothing_wrapped(self) -> bool:
        return same_items(self._shown, self._seen)

    def _write(self) -> None:
        """After a change of this list: makes the same change in the list it stands for."""
        known = {id(shown): plain for shown, plain in zip(self._shown, self._seen, strict=True)}
        by_user = wrapped_by_user(self._seen)
        self.plain[:] = [
            known[id(part)] if id(part) in known else unwrap_part(part, by_user) for part in self
        ]
        self._show()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


def _written_through(name: str) -> Callable[..., Any]:
    change = getattr(list, name)

    def method(self: Parts, *args: Any, **kwargs: Any) -> Any:
        result = change(self, *args, **kwargs)
        self._write()
        return result

    return method


for _name in ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"):
    setattr(Parts, _name, _written_through(_name))
for _name in ("__delitem__", "__iadd__", "__imul__", "__setitem__"):
    setattr(Parts, _name, _written_through(_name))


def same_items(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def wrap_part(part: Any) -> Any:
    if not isinstance(part, tuple):
        return part
    wrapped = tuple(Wrapped._sonde_wrap(each) if why_not(each) is None else each for each in part)
    return part if same_items(list(part), list(wrapped)) else wrapped


def unwrap_part(part: Any, by_user: set[str]) -> Any:
    if not isinstance(part, tuple) or not any(isinstance(each, Wrapped) for each in part):
        return part
    if isinstance(part[0], str) and part[0] in by_user:
        return part
    return tuple(each._sonde_given if isinstance(each, Wrapped) else each for each in part)


def wrapped_by_user(plain: object) -> set[str]:
    """Names of the parts that were wrapped before their pipeline was: they stay wrapped."""
    if not isinstance(plain, list):
        return set()
    pairs = [part for part in plain if isinstance(part, tuple) and part]
    return {
        part[0]
        for part in pairs
        if isinstance(part[0], str) and any(isinstance(each, Wrapped) for each in part)
    }
