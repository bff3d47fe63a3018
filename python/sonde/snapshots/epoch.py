"""What is known of an epoch that is under way."""

from __future__ import annotations

from sonde.snapshots.models import refer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde import _core
    from sonde.snapshots.models import Reference

# Optimizers that die in one epoch and have their last look taken; of more only now and then.
MOST_GONE = 64
PART = 500  # of the time, for the others


class Taken:
    """Gradients that one optimizer was about to use, measured; the newest of its epoch."""

    __slots__ = ("captured", "likely", "names", "number", "optimizer")

    def __init__(
        self, optimizer: int, number: int, captured: _core.snapshots.Captured, likely: bool
    ) -> None:
        self.optimizer = optimizer  # its id(), compared only
        self.number = number
        self.captured = captured
        self.names = set(captured.names)
        self.likely = likely  # was the step expected to be the last?

    def is_last(self, steps: dict[int, int]) -> bool:
        """That was perhaps a guess. ``steps``: how many each optimizer took, as far as is known."""
        return steps.get(self.optimizer, self.number if self.likely else 0) == self.number


class Gone:
    """Weights and gradients as they were when their optimizer, or their model, died."""

    __slots__ = ("gradients", "names", "weights")

    def __init__(
        self, weights: _core.snapshots.Captured, gradients: _core.snapshots.Captured
    ) -> None:
        self.weights = weights
        self.gradients = gradients
        self.names = set(weights.names)


class Epoch:
    __slots__ = (
        "_models",
        "_next_gone",
        "_others",
        "gone",
        "optimizers",
        "several",
        "taken",
        "whole",
    )

    def __init__(self, whole: bool) -> None:
        self.whole = whole  # are its tensors kept as they are?
        self.several = False  # have the names in here prefixes?
        self.taken: list[Taken] = []  # no name twice
        self.gone: list[Gone] = []  # likewise
        self.optimizers: set[int] = set()  # that have been measured in it, by id()
        self._models: list[Reference] = []  # trained in it, whether or not their optimizers live
        self._others = 0  # gone so far
        self._next_gone = 0  # when there may be another, beyond MOST_GONE

    def models(self, more: list[Any]) -> list[Any]:
        """Those that were trained in it so far and live, with these."""
        found = [model for each in self._models if (model := each()) is not None]
        for model in more:
            if all(model is not other for other in found):
                found.append(model)
                self._models.append(refer(model))
        return found

    def forget(self) -> None:
        """What was measured in it has names that are no longer right."""
        self.taken.clear()
        self.gone.clear()

    def takes_gone(self, now: int) -> bool:
        return self._others < MOST_GONE or now >= self._next_gone

    def add_gone(self, gone: Gone, begin: int, end: int) -> None:
        """The newest of a name counts."""
        self.gone = [each for each in self.gone if each.names.isdisjoint(gone.names)]
        self.gone.append(gone)
        self._others += 1
        self._next_gone = end + PART * (end - begin)
