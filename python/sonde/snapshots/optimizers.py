"""What an optimizer owns, of whatever framework it is."""

from __future__ import annotations

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parameters_of(optimizer: Any) -> list[Any]:
    """In its order; none where it does not say."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        return [each for group in groups for each in group["params"]]
    # Of Keras, on the torch backend: each variable holds a tensor.
    variables = getattr(optimizer, "_trainable_variables", None) or ()
    return [getattr(variable, "value", variable) for variable in variables]


def owned_count(optimizer: Any) -> int:
    """How many parameters it owns; it may be given more."""
    groups = getattr(optimizer, "param_groups", None)
    return (
        len(parameters_of(optimizer)) if groups is None else sum(len(g["params"]) for g in groups)
    )


def own_names(optimizer: Any) -> list[str]:
    """What it calls its parameters: names that it was given, else numbers."""
    names: list[str] = []
    for group in getattr(optimizer, "param_groups", None) or ():
        given = group.get("param_names") or ()
        for i in range(len(group["params"])):
            names.append(given[i] if i < len(given) else f"parameter_{len(names)}")
    missing = len(parameters_of(optimizer)) - len(names)
    return names + [f"parameter_{len(names) + i}" for i in range(missing)]


def pieces(optimizer: Any) -> list[list[Any]]:
    """Its parameters, apart by which other optimizers have them too.

    Of what two have only the newer capture counts, and captures are dropped as a whole.
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
    """A fused optimizer finds out by itself that mixed precision skips its step.

    On a GPU it is the only one to know, for asking would mean to wait.
    """
    found: Any = getattr(optimizer, "found_inf", None)
    on_host = getattr(getattr(found, "device", None), "type", None) == "cpu"
    return on_host and bool(found.item())
