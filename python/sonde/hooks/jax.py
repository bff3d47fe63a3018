"""JAX: training steps that the program has compiled with ``jax.jit`` and calls in a loop.

| what | how |
|---|---|
| compiled_step | a call of a function from ``jax.jit``: the vectorcall of the object, which stays |
| | what it is (``lower``, ``trace``, ``isinstance`` and the rest are untouched) |
| that it trains | it differentiates: ``jax.vjp``, on which ``grad`` is built, was seen while JAX |
| | traced it; and it is given what it has returned before |

A call only hands work to the device, and says so (``timing: dispatch``). What is compiled into one
function has no parts to be seen. The first call, which compiles, is no span: only the second shows
that the state goes round.
"""

from __future__ import annotations

from functools import update_wrapper
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
    _core.begin_jitted(state.is_fed, state.note)
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
    """What functions that differentiate have returned last, without keeping it alive."""

    def __init__(self, leaves: Callable[[object], list[Any]]) -> None:
        self._leaves = leaves
        self._last: WeakKeyDictionary[Any, list[ref[Any]]] = WeakKeyDictionary()

    def note(self, function: object, result: object) -> None:
        self._last[function] = [ref(leaf) for leaf in self._leaves(result)[:MOST_LEAVES]]

    def is_fed(self, function: object, args: tuple[object, ...]) -> bool:
        alive = {
            id(leaf) for known in self._last.get(function, ()) if (leaf := known()) is not None
        }
        fed = any(id(leaf) in alive for leaf in self._leaves(args))
        if fed:
            facts.use("jax")  # a training step
        return fed
