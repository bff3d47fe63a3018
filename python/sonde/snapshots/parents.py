"""Finds the module that contains given modules and was never called itself.

A program may call the parts of its model one by one (``agent.actor(x)``, ``agent.critic(x)``), or a
method other than ``forward``. A part does not know its parent, so all modules of the process are
searched: once for each optimizer, which takes 10 to 30 milliseconds.
"""

from __future__ import annotations

from time import monotonic_ns

from sonde import _core
from sonde.snapshots.models import refer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde.snapshots.models import Reference


MOST = 8  # searches; further ones take only a fraction of the time
PART = 500


class Parents:
    __slots__ = ("_known", "_next_ns", "_searches")

    def __init__(self) -> None:
        self._known: dict[frozenset[int], Reference | None] = {}
        self._searches = 0
        self._next_ns = 0

    def holding(self, ids: set[int]) -> Any:
        """The innermost module with all these parameters, given by id(). None: there is none."""
        key = frozenset(ids)
        known = self._known.get(key)
        if key in self._known and (known is None or known() is not None):
            return None if known is None else known()
        begin = monotonic_ns()
        if self._searches >= MOST and begin < self._next_ns:
            return None
        found = _innermost(ids)
        self._known[key] = None if found is None else refer(found)
        if found is not None:
            _core.torch.know_model(found)
        self._searches += 1
        end = monotonic_ns()
        self._next_ns = end + PART * (end - begin)
        return found


def _innermost(ids: set[int]) -> Any:
    modules = _core.torch.living_modules()
    parents: dict[int, list[Any]] = {}
    for module in modules:
        for child in _members(module, "_modules"):
            parents.setdefault(id(child), []).append(module)
    one = min(ids)
    todo = [m for m in modules if any(id(each) == one for each in _members(m, "_parameters"))]
    above: dict[int, Any] = {}
    while todo:
        module = todo.pop()
        if id(module) not in above:
            above[id(module)] = module
            todo += parents.get(id(module), [])
    sizes = [(size, module) for module in above.values() if (size := _size(module, ids))]
    return min(sizes, key=lambda pair: pair[0], default=(0, None))[1]


def _members(module: Any, name: str) -> list[Any]:
    members = vars(module).get(name)
    return list(members.values()) if isinstance(members, dict) else []


def _size(module: Any, ids: set[int]) -> tuple[int, int] | None:
    """How many parameters and parts it has. None: it does not have all of these parameters."""
    try:
        own = {address for _, address in _core.snapshots.parameter_ids(module)}
        return (len(own), sum(1 for _ in module.modules())) if ids <= own else None
    except Exception:  # raised by code of the program
        return None
