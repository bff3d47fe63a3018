"""Which models are trained: those that an optimizer owns parameters of.

| owned by an optimizer | captured |
|---|---|
| a parameter of a module that was called | the outermost such module, whole, under its names |
| parameters of several such modules, or of none, all held by one module | that module |
| any other | the parameter, in a namespace of the optimizer's class |

A module that was called by itself and is also a part of another is not captured separately. A
module of which no optimizer owns anything (a target network, a teacher) is not captured. Where no
optimizer has stepped, the modules that have had gradients are captured.
"""

from __future__ import annotations

from sonde import _core
from sonde.snapshots.models import tensors_of, unwrapped
from sonde.snapshots.optimizers import own_names, parameters_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sonde.snapshots.parents import Parents

    Loose = tuple[Any, list[tuple[str, Any]]]  # an optimizer and its pairs of name and tensor


class Module:
    """A module that was called, without its wrappers, and the ids of its parameters."""

    __slots__ = ("gradients", "ids", "model", "trained")

    def __init__(self, model: Any, ids: set[int], trained: bool, gradients: bool) -> None:
        self.model = model
        self.ids = ids
        self.trained = trained  # has run in training mode
        self.gradients = gradients  # has had a gradient


def seen_modules(
    failed: Callable[[Any, Exception], None], is_left_out: Callable[[Any], bool]
) -> list[Module]:
    """``failed`` is called with modules that raise when they are asked for their tensors."""
    found: dict[int, Module] = {}
    for seen, trained, gradients in _core.snapshots.seen_models():
        model = unwrapped(seen)
        if is_left_out(model):
            continue
        known = found.get(id(model))
        if known is not None:
            known.trained |= trained
            known.gradients |= gradients
            continue
        try:
            ids = {address for _, address in _core.snapshots.parameter_ids(tensors_of(model))}
        except Exception as error:  # raised by code of the program: go on with the other models
            failed(model, error)
            continue
        found[id(model)] = Module(model, ids, trained, gradients)
    return list(found.values())


def trained_by(
    optimizers: Iterable[Any], seen: list[Module], parents: Parents
) -> tuple[list[Any], list[Loose]]:
    """The models that these optimizers train, and what else they own."""
    optimizers = list(optimizers)
    holders: list[Module] = []
    for optimizer in optimizers:
        owned = {id(each) for each in parameters_of(optimizer)}
        holders += [each for each in _holders(owned, seen, parents) if each not in holders]
    holders = outermost(holders)
    held = set().union(*(module.ids for module in holders))
    loose: list[Loose] = []
    for optimizer in optimizers:
        pairs = [
            (name, tensor)
            for name, tensor in zip(own_names(optimizer), parameters_of(optimizer), strict=True)
            if id(tensor) not in held
        ]
        held.update(id(tensor) for _, tensor in pairs)
        if pairs:
            loose.append((optimizer, pairs))
    if loose and not holders:
        # The optimizer may own copies, as in mixed precision by hand.
        holders = outermost([module for module in seen if module.gradients])
    return [module.model for module in holders], loose


def _holders(owned: set[int], seen: list[Module], parents: Parents) -> list[Module]:
    found = outermost([module for module in seen if not owned.isdisjoint(module.ids)])
    if not owned or (len(found) == 1 and owned <= found[0].ids):
        return found
    whole = parents.holding(owned)
    if whole is None:
        return found
    whole = unwrapped(whole)
    ids = {address for _, address in _core.snapshots.parameter_ids(tensors_of(whole))}
    return [Module(whole, ids, trained=True, gradients=True)]


def trained_by_hand(seen: list[Module], known: Iterable[Any]) -> list[Any]:
    """For when no optimizer has stepped: the modules that have had gradients, else those that an
    optimizer owns, else those that have run in training mode."""
    found = [module for module in seen if module.gradients]
    if not found:
        owned = {id(each) for optimizer in known for each in parameters_of(optimizer)}
        found = [module for module in seen if not owned.isdisjoint(module.ids)]
    if not found:
        found = [module for module in seen if module.trained and _is_trainable(module.model)]
    return [module.model for module in outermost(found)]


def outermost(modules: list[Module]) -> list[Module]:
    """The modules that are no parts of others, in the order in which they were seen."""
    kept: list[Module] = []
    for module in sorted(modules, key=lambda each: -len(each.ids)):
        whole = next((other for other in kept if module.ids <= other.ids), None)
        if whole is None:
            kept.append(module)
        elif len(whole.ids) == len(module.ids) and _is_part(whole.model, module.model):
            kept[kept.index(whole)] = module
    return [module for module in modules if module in kept]


def _is_part(part: Any, whole: Any) -> bool:
    return any(each is part for each in getattr(whole, "modules", tuple)())


def _is_trainable(model: Any) -> bool:
    """False for a frozen model, such as a teacher or a feature extractor."""
    return any(parameter.requires_grad for parameter in model.parameters())
