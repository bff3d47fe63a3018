"""What an optimizer owns, in torch and in Keras."""

from __future__ import annotations

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parameters_of(optimizer: Any) -> list[Any]:
    """Its parameters, in its order; empty if they are not known."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        return [each for group in groups for each in group["params"]]
    # Keras on the torch backend: each variable holds a tensor.
    variables = getattr(optimizer, "_trainable_variables", None) or ()
    return [getattr(variable, "value", variable) for variable in variables]


def owned_count(optimizer: Any) -> int:
    """How many parameters it owns now."""
    groups = getattr(optimizer, "param_groups", None)
    return (
        len(parameters_of(optimizer)) if groups is None else sum(len(g["params"]) for g in groups)
    )


def own_names(optimizer: Any) -> list[str]:
    """The names of its parameters: those it was given, otherwise numbers."""
    names: list[str] = []
    for group in getattr(optimizer, "param_groups", None) or ():
        given = group.get("param_names") or ()
        for i in range(len(group["params"])):
            names.append(given[i] if i < len(given) else f"parameter_{len(names)}")
    missing = len(parameters_of(optimizer)) - len(names)
    return names + [f"parameter_{len(names) + i}" for i in range(missing)]


def pieces(optimizer: Any) -> list[list[Any]]:
    """Its parameters, one group for each set of other optimizers that own them too.

    If two optimizers own a parameter, only the newer capture counts. A capture can only be dropped
    as a whole, so each group is captured by itself.
    """
    parameters = parameters_of(optimizer)
    others = [other for other in _core.snapshots.seen_optimizers() if other is not optimizer]
    if not others:
        return [parameters]
    holders = {id(parameter): 0 for parameter in parameters}
    for number, other in enumerate(others):
        for parameter in parameters_of(other):
            if id(parameter) in holders:
                holders[id(parameter)] |= 1 << number
    found: dict[int, list[Any]] = {}
    for parameter in parameters:
        found.setdefault(holders[id(parameter)], []).append(parameter)
    return list(found.values())


def is_skipped(optimizer: Any) -> bool:
    """Whether a fused optimizer will skip its step, which it finds out by itself.

    On a GPU only the optimizer knows, because asking would wait for the GPU.
    """
    found: Any = getattr(optimizer, "found_inf", None)
    on_host = getattr(getattr(found, "device", None), "type", None) == "cpu"
    return on_host and bool(found.item())
