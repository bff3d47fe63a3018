"""JAX: training steps that the program has compiled with ``jax.jit`` and calls in a loop.

| what | how |
|---|---|
| compiled_step | a call of a function from ``jax.jit``: the vectorcall of the object, which stays |
| | what it is (``lower``, ``trace``, ``isinstance`` and the rest are untouched) |
| that it trains | it differentiates: ``jax.vjp``, on which ``grad`` is built, was seen while JAX |
| | traced it; and it is given what it has returned before |
| backward | it differentiates, and from call to call its parameters (arguments with a |
| | counterpart in the result) are replaced by arrays that it did not return: it returns |
| | gradients, and the program updates the parameters elsewhere |

A call only hands work to the device, and says so (``timing: dispatch``). What is compiled into one
function has no visible parts. The first call, which compiles, is no span: only later calls show
what becomes of the parameters.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
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

MOST_RESULTS = 16  # remembered of a function, which may train several models in turn
TELLING = 2  # how often parameters have to be replaced before that counts
FLOATS = ("f", "c", "V")  # kinds of NumPy's types; V: bfloat16 and smaller ones


def install(jax: ModuleType, patches: Patches, hook: Hook) -> None:
    state = _States(jax.tree_util.tree_leaves)
    _core.jax.start_following(state.role, state.note)
    patches.on_undo(_core.jax.stop_following)
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
            _core.jax.follow_calls(made)
            return made

        def decorate(function: Any) -> Any:  # @jax.jit(static_argnums=...)
            compiled = made(function)
            if patches.active:
                _core.jax.follow_calls(compiled)
            return compiled

        return decorate

    return update_wrapper(jit, original)


def _told(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
    def vjp(*args: Any, **kwargs: Any) -> Any:
        if patches.active:
            _core.jax.note_differentiation()
        return original(*args, **kwargs)

    return update_wrapper(vjp, original)


class _States:
    """What functions that differentiate were given and have returned, none of it kept alive."""

    def __init__(self, leaves: Callable[[object], list[Any]]) -> None:
        self._leaves = leaves
        self._known: WeakKeyDictionary[Any, _Calls] = WeakKeyDictionary()

    def note(self, function: object, args: tuple[object, ...], result: object) -> None:
        known = self._known.setdefault(function, _Calls())
        returned = self._leaves(result)
        known.returned.append(_weak(returned))
        known.shapes = Counter(shape for leaf in returned if (shape := _shape(leaf)))
        known.given = _weak(_counterparts(self._leaves(args), known.shapes))

    def role(self, function: object, args: tuple[object, ...]) -> str | None:
        known = self._known.get(function)
        role = None if known is None else self._judge(known, self._leaves(args))
        if role is not None:
            facts.use("jax")
        return role

    @staticmethod
    def _judge(known: _Calls, leaves: list[Any]) -> str | None:
        returned = {identity for call in known.returned for identity in _alive(call)}
        # Arrays that it returned before come first: others may only happen to have the same shape.
        leaves = sorted(leaves, key=lambda leaf: id(leaf) not in returned)
        trained = _counterparts(leaves, known.shapes)
        if _most(trained, returned):
            return "step"
        if not trained:
            return "step" if any(id(leaf) in returned for leaf in leaves) else None
        if not _most(trained, _alive(known.given)):
            known.replaced += 1
        return "backward" if known.replaced >= TELLING else None


class _Calls:
    """What is known of one function."""

    def __init__(self) -> None:
        self.returned: deque[list[ref[Any]]] = deque(maxlen=MOST_RESULTS)
        self.shapes: Counter[Any] = Counter()  # of its last result
        self.given: list[ref[Any]] = []  # arguments of the last call that have a counterpart there
        self.replaced = 0  # how often they were other arrays than before


def _counterparts(leaves: list[Any], shapes: Counter[Any]) -> list[Any]:
    """The arrays that may have a gradient, or a successor, among results of these shapes."""
    left = Counter(shapes)
    found = []
    for leaf in leaves:
        shape = _shape(leaf)
        if shape and left[shape] > 0:
            left[shape] -= 1
            found.append(leaf)
    return found


def _shape(leaf: Any) -> Any:
    """None for scalars and integers, which may be a loss, a count or a key."""
    dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    floats = getattr(dtype, "kind", None) in FLOATS
    return (shape, dtype) if floats and shape else None


def _most(leaves: list[Any], known: set[int]) -> bool:
    """Are at least half of them known objects?"""
    return bool(leaves) and 2 * sum(id(leaf) in known for leaf in leaves) >= len(leaves)


def _weak(leaves: list[Any]) -> list[ref[Any]]:
    """Weak references to those objects that take them; numbers do not."""
    known = []
    for leaf in leaves:
        with suppress(TypeError):
            known.append(ref(leaf))
    return known


def _alive(known: list[ref[Any]]) -> set[int]:
    return {id(leaf) for one in known if (leaf := one()) is not None}
