"""What is known of optimizers and models that may die before their epoch ends.

A program that trains inside a function has neither a model nor an optimizer when it ends. Nothing
is kept alive for that. An optimizer, or a model without one, tells when it dies, while its
parameters still exist.
"""

from __future__ import annotations

from _weakref import ref

from sonde import _core
from sonde.snapshots.models import tensors_of, unwrapped
from sonde.snapshots.optimizers import owned_count, parameters_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Pairs = list[tuple[str, Any]]


class ByHand:
    """A model that has had gradients, and its parameters by name. Nothing is kept alive."""

    __slots__ = ("kind", "model", "parameters")

    def __init__(self, model: Any, on_gone: Callable[[ByHand], None]) -> None:
        self.kind = type(model).__name__
        source = tensors_of(model)
        tensors = dict(source if isinstance(source, list) else model.named_parameters())
        self.parameters = [(name, ref(tensor)) for name, tensor in tensors.items()]
        # Called before the model drops its parameters, unless it dies as part of a reference cycle.
        self.model = ref(model, lambda _: on_gone(self))


class Expected:
    """An optimizer that will tell when it dies, and the names of what it owns."""

    __slots__ = ("like", "names", "sequence")

    def __init__(self, sequence: int, names: dict[int, str], like: object) -> None:
        self.sequence = sequence  # of the last epoch it has stepped in
        self.names = names  # by id(): what it owns lives as long as the optimizer
        self.like = like  # while this stays the same, so do the names


class Farewells:
    __slots__ = ("_by_hand", "_expected")

    def __init__(self) -> None:
        self._expected: dict[int, Expected] = {}  # by id() of the optimizer
        self._by_hand: list[ByHand] = []

    def expect(self, optimizer: Any, sources: list[tuple[str, Any]], sequence: int) -> None:
        """Notes that this optimizer steps in the epoch with this sequence."""
        if not _core.snapshots.expect_farewell(optimizer):
            return
        modules = [(prefix, id(source)) for prefix, source in sources if type(source) is not list]
        like = _core.snapshots.seen_version(), owned_count(optimizer), modules
        known = self._expected.get(id(optimizer))
        if known is not None and known.like == like and len(modules) == len(sources):
            known.sequence = sequence
            return
        owned = {id(parameter) for parameter in parameters_of(optimizer)}
        names = {
            address: prefix + name
            for prefix, source in sources
            for name, address in _core.snapshots.parameter_ids(source)
            if address in owned
        }
        self._expected[id(optimizer)] = Expected(sequence, names, like)

    def of(self, optimizer: int, groups: Any) -> tuple[int, Pairs]:
        """The last epoch that the optimizer stepped in (0: none), and what it owned. Forgets it."""
        expected = self._expected.pop(optimizer, None)
        if expected is None:
            return 0, []
        found: dict[str, Any] = {}
        for group in groups:
            for tensor in group["params"]:
                if (name := expected.names.get(id(tensor))) is not None:
                    found[name] = tensor
        return expected.sequence, list(found.items())

    def expect_model(self, model: Any, on_gone: Callable[[ByHand], None]) -> None:
        """Notes that this model has had its first gradients."""
        self._by_hand = [each for each in self._by_hand if each.model() is not None]
        model = unwrapped(model)
        if all(each.model() is not model for each in self._by_hand):
            self._by_hand.append(ByHand(model, on_gone))

    def of_model(self, gone: ByHand) -> Pairs:
        """The parameters of the model, unless an optimizer owns any, which then tells."""
        owned = {
            id(each) for other in _core.snapshots.seen_optimizers() for each in parameters_of(other)
        }
        living = [(name, each()) for name, each in gone.parameters]
        found = [(name, tensor) for name, tensor in living if tensor is not None]
        return [] if any(id(tensor) in owned for _, tensor in found) else found

    def clear(self) -> None:
        self._expected.clear()
        self._by_hand.clear()
