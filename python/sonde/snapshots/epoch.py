"""What is known of an epoch that is open."""

from __future__ import annotations

from sonde.snapshots.models import refer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde import _core
    from sonde.snapshots.models import Reference

# At most this many dying optimizers are captured in one epoch; beyond that, one now and then.
MOST_GONE = 64
PART = 500  # the others take at most this fraction of the time: 1 / PART


class Taken:
    """The newest gradients in an epoch that one optimizer was about to use, measured."""

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
        """Whether the step was the last. ``steps``: how many each optimizer took, by id()."""
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
        self.whole = whole  # are whole tensors kept, besides statistics?
        self.several = False  # do the names of its tensors have prefixes?
        self.taken: list[Taken] = []  # each name in one of them only
        self.gone: list[Gone] = []  # each name in one of them only
        self.optimizers: set[int] = set()  # those that were measured in it, by id()
        self._models: list[Reference] = []  # trained in it, whether or not their optimizers live
        self._others = 0  # how many captures of gone optimizers and models there were
        self._next_gone = 0  # the earliest time for another, beyond MOST_GONE

    def models(self, more: list[Any]) -> list[Any]:
        """The living models that were trained in it so far, and these."""
        found = [model for each in self._models if (model := each()) is not None]
        for model in more:
            if all(model is not other for other in found):
                found.append(model)
                self._models.append(refer(model))
        return found

    def forget(self) -> None:
        """Drops what was measured in it: the names are no longer right."""
        self.taken.clear()
        self.gone.clear()

    def takes_gone(self, now: int) -> bool:
        return self._others < MOST_GONE or now >= self._next_gone

    def add_gone(self, gone: Gone, begin: int, end: int) -> None:
        """Of several captures with the same name the newest is kept."""
        self.gone = [each for each in self.gone if each.names.isdisjoint(gone.names)]
        self.gone.append(gone)
        self._others += 1
        self._next_gone = end + PART * (end - begin)
