"""JAX: training steps that the program has compiled with ``jax.jit`` and calls in a loop.

| what | how |
|---|---|
| compiled_step | a call of a function from ``jax.jit``: the vectorcall of the object, which stays |
| | what it is (``lower``, ``trace``, ``isinstance`` and the rest are untouched) |
| that it trains | it differentiates: ``jax.vjp``, on which ``grad`` is built, was seen while JAX |
| | traced it; and it is given what it has returned before |
| backward | it differentiates, and what it returned has the shapes of an argument that is |
| | another at the next call: the program updates its parameters elsewhere |

A call only hands work to the device, and says so (``timing: dispatch``). What is compiled into one
function has no parts to be seen. The first call, which compiles, is no span: only the second shows
what becomes of the state.
"""

from __future__ import annotations

from contextlib import suppress
from functools import update_wrapper
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

from sonde import _core, facts
from sonde.hooks.own_loops import end_own_loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook
    from sonde.hooks.patches import Patches

MOST_LEAVES = 256  # of a result that are remembered


def install(jax: ModuleType, patches: Patches, hook: Hook) -> None:
    state = _States(jax.tree_util.tree_leaves)
    _core.begin_jitted(state.role, state.note)
    patches.on_undo(_core.unwatch_jitted)
    hook.on_uninstall(end_own_loops)
    patches.replace(jax, "jit", lambda original: _watched(original, patches))
    internals = jax._src.api
    patches.replace(internals, "vjp", lambda original: _told(original, patches))
    if jax.vjp is not internals.vjp:  # the same function under its public name
        ours = internals.vjp
        patches.replace(jax, "vjp", lambda original: ours)


def _watched(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    def jit(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if not patches.active:
            return made
        if args or "fun" in kwargs:
            _core.watch_jitted(made)
            return made

        def decorate(function: Any) -> Any:  # @jax.jit(static_argnums=...)
            compiled = made(function)
            if patches.active:
                _core.watch_jitted(compiled)
            return compiled

        return decorate

    return update_wrapper(jit, original)


def _told(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    def vjp(*args: Any, **kwargs: Any) -> Any:
        if patches.active:
            _core.jitted_differentiates()
        return original(*args, **kwargs)

    return update_wrapper(vjp, original)


class _States:
    """What functions that differentiate have got and returned last, without keeping it alive."""

    def __init__(self, leaves: Callable[[object], list[Any]]) -> None:
        self._leaves = leaves
        self._last: WeakKeyDictionary[Any, _Call] = WeakKeyDictionary()

    def note(self, function: object, args: tuple[object, ...], result: object) -> None:
        returned = self._leaves(result)[:MOST_LEAVES]
        shapes = _shapes(returned)
        trained = {}
        for index, arg in enumerate(args):
            leaves = self._leaves(arg)[:MOST_LEAVES]
            known = _weak(leaves)
            if known and _contains(shapes, _shapes(leaves)):
                trained[index] = known
        self._last[function] = _Call(_weak(returned), trained)

    def role(self, function: object, args: tuple[object, ...]) -> str | None:
        last = self._last.get(function)
        if last is None:
            return None
        returned = _alive(last.returned)
        role = None
        if any(id(leaf) in returned for leaf in self._leaves(args)):
            role = "step"
        elif any(self._is_replaced(args, index, old) for index, old in last.trained.items()):
            role = "backward"
        if role:
            facts.use("jax")
        return role

    def _is_replaced(self, args: tuple[object, ...], index: int, old: list[ref[Any]]) -> bool:
        leaves = self._leaves(args[index]) if index < len(args) else []
        return bool(leaves) and _alive(old).isdisjoint(id(leaf) for leaf in leaves)


class _Call(NamedTuple):
    returned: list[ref[Any]]
    trained: dict[int, list[ref[Any]]]  # arguments that may have their gradients in it, by place


def _weak(leaves: list[Any]) -> list[ref[Any]]:
    """Nothing for Python's and NumPy's numbers: they take no weak reference."""
    known = []
    for leaf in leaves:
        with suppress(TypeError):
            known.append(ref(leaf))
    return known


def _alive(known: list[ref[Any]]) -> set[int]:
    return {id(leaf) for one in known if (leaf := one()) is not None}


def _shapes(leaves: list[Any]) -> list[Any]:
    return [getattr(leaf, "shape", None) for leaf in leaves]


def _contains(whole: list[Any], part: list[Any]) -> bool:
    """Does one list lie in the other? A leaf that is no array is in none."""
    if None in part:
        return False
    starts = range(len(whole) - len(part) + 1)
    return any(whole[start : start + len(part)] == part for start in starts)
