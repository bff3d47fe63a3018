"""Takes the snapshots of one session. Everything here runs on the thread that trains."""

from __future__ import annotations

import sys

from sonde import _core, log
from sonde.snapshots.models import Models, has_offloaded, tensors_of, unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde.snapshots.fallback import Numbers
    from sonde.snapshots.tensors import Resolved

LOGGER = "cirron.snapshots.stats"


# Of threads that ended inside of an epoch nobody hears again; what they leave is dropped.
MOST_OPEN = 64


class Taken:
    """Gradients that one optimizer was about to use, measured; the newest of its epoch."""

    __slots__ = ("captured", "names", "number", "optimizer")

    def __init__(self, optimizer: int, number: int, captured: _core.Captured) -> None:
        self.optimizer = optimizer  # its id(), compared only
        self.number = number
        self.captured = captured
        self.names = set(captured.names)


class Epoch:
    """One that is under way."""

    __slots__ = ("taken", "whole")

    def __init__(self, whole: bool) -> None:
        self.whole = whole  # are its tensors kept as they are?
        self.taken: list[Taken] = []  # no name twice


class Recorder:
    __slots__ = (
        "_drawn",
        "_failed",
        "_mode",
        "_open",
        "_rate",
        "_run",
        "_threads",
        "models",
    )

    def __init__(self, mode: str, sample_rate: float, threads: int, run: str) -> None:
        self.models = Models()
        self._mode = mode
        self._rate = sample_rate
        self._threads = threads
        self._run = run
        self._failed = False
        self._open: dict[int, Epoch] = {}  # by sequence of the span
        self._drawn: dict[int | None, int] = {}  # how many epochs of that number there were

    def watch(self, model: object, name: str | None) -> None:
        if not any(hasattr(model, each) for each in ("named_parameters", "weights", "variables")):
            log.warn(
                "cirron.profiler",
                f"watch(): a {type(model).__name__} has no named_parameters() and no weights, "
                "nothing of it is captured; pass the model itself",
            )
            return
        self.models.watch(model, name)

    # -- what _core tells --

    def epoch_ended(
        self,
        sequence: int,
        index: int | None,
        step: int | None,
        stack: int,
        steps: dict[int, int],
    ) -> None:
        self._safely(self._capture_epoch, sequence, index, step, stack, steps)

    def gradients_are_final(
        self, optimizer: Any, number: int, sequence: int, index: int | None, stack: int
    ) -> None:
        self._safely(self._capture_gradients, optimizer, number, sequence, index, stack)

    def finish(self) -> None:
        _core.end_open_epochs()
        self._open.clear()

    def _safely(self, work: Any, *args: Any) -> None:
        """Training goes on, whatever happens in here."""
        if self._failed:
            return
        try:
            work(*args)
        except Exception as error:
            self._failed = True
            self._open.clear()
            log.warn(
                LOGGER,
                f"no more snapshots in this session, taking one failed "
                f"({type(error).__name__}: {error}); training goes on",
            )

    # -- capturing --

    def _capture_epoch(
        self,
        sequence: int,
        index: int | None,
        step: int | None,
        stack: int,
        steps: dict[int, int],
    ) -> None:
        epoch = self._epoch(sequence, index)
        self._open.pop(sequence, None)
        if _graph_is_captured():
            return
        models = self._chosen(stack)
        self.models.end_epoch(stack)
        if not models:
            return
        common: dict[str, Any] = {"sampled": epoch.whole} if self._mode == "sampled" else {}
        weights = self._capture(models, stack, gradients=False, whole=epoch.whole)
        # That a step would be the last was perhaps a guess; now it is known.
        last = [
            each for each in epoch.taken if steps.get(each.optimizer, each.number) == each.number
        ]
        rest = self._capture(
            models,
            stack,
            gradients=True,
            skip=set().union(*(each.names for each in last)),
            whole=epoch.whole,
        )
        # Parameters without a gradient now were not part of the last step, so nothing is kept of a
        # wrong guess where any has one.
        left = set() if len(last) == len(epoch.taken) else set(rest.names)
        gradients: list[tuple[_core.Captured, dict[str, Any]]] = []
        for each in epoch.taken:
            attrs = common | {"taken": "optimizer_step", "optimizer_step": each.number}
            if each in last:
                gradients.append((each.captured, attrs))
            elif left.isdisjoint(each.names):
                gradients.append((each.captured, attrs | {"last": False}))
        gradients.append((rest, common | {"taken": "epoch_end"}))
        more = any(len(captured) for captured, _ in gradients)
        _core.submit([(weights, common)], sequence, index, step, self._mode, more)
        _core.submit(gradients, sequence, index, step, self._mode, False)

    def _capture_gradients(
        self, optimizer: Any, number: int, sequence: int, index: int | None, stack: int
    ) -> None:
        if _parameters(optimizer) is None or _graph_is_captured() or _is_skipped(optimizer):
            return
        models = self._chosen(stack)
        if not models:
            return
        epoch = self._epoch(sequence, index)
        epoch.taken = [each for each in epoch.taken if each.optimizer != id(optimizer)]
        for parameters in _pieces(optimizer):
            captured = self._capture(
                models, stack, gradients=True, parameters=parameters, whole=epoch.whole
            )
            names = set(captured.names)
            shared = [each for each in epoch.taken if not names.isdisjoint(each.names)]
            if any(not each.names <= names for each in shared):
                # The other optimizer was captured before this one had ever stepped, so not in
                # pieces. Once, what it has stays.
                captured = self._capture(
                    models,
                    stack,
                    gradients=True,
                    parameters=parameters,
                    skip=set().union(*(each.names for each in shared)),
                    whole=epoch.whole,
                )
            else:
                epoch.taken = [each for each in epoch.taken if each not in shared]
            if captured.names:
                epoch.taken.append(Taken(id(optimizer), number, captured))

    def _epoch(self, sequence: int, index: int | None) -> Epoch:
        epoch = self._open.get(sequence)
        if epoch is None:
            while len(self._open) >= MOST_OPEN:
                self._open.pop(next(iter(self._open)))
            epoch = self._open[sequence] = Epoch(self._draw(index))
        return epoch

    def _chosen(self, stack: int) -> list[tuple[str, Any]]:
        found = []
        for prefix, model in self.models.chosen(stack):
            try:
                found.append((prefix, tensors_of(unwrapped(model))))
            except Exception as error:  # the program's own code: the other models keep theirs
                self.models.leave_out(model)
                log.warn(
                    LOGGER,
                    f"no snapshots of {prefix.rstrip('.') or type(model).__name__}: asking for its "
                    f"tensors failed ({type(error).__name__}: {error})",
                )
        return found

    def _capture(
        self,
        models: list[tuple[str, Any]],
        stack: int,
        *,
        gradients: bool,
        whole: bool,
        parameters: list[Any] | None = None,
        skip: set[str] | None = None,
    ) -> _core.Captured:
        return _core.capture(
            models,
            gradients,
            parameters,
            skip or set(),
            whole,
            self._threads,
            lambda tensors: self._resolve(tensors, stack),
            measure,
        )

    def _resolve(self, tensors: list[tuple[Any, bool]], stack: int) -> list[Resolved]:
        """For _core: of tensors that are not plain memory, what to measure instead."""
        from sonde.snapshots.tensors import resolve

        offloaded = any(has_offloaded(model) for _, model in self.models.chosen(stack))
        return [resolve(tensor, sharded, offloaded) for tensor, sharded in tensors]

    def _draw(self, index: int | None) -> bool:
        """Are the tensors of this epoch kept as they are? The same on every rank.

        A number may come again, with another trainer or on another thread: that is another draw.
        """
        if self._mode != "sampled" or not 0.0 < self._rate < 1.0:
            return self._mode == "full" or (self._mode == "sampled" and self._rate >= 1.0)
        from hashlib import blake2b

        again = self._drawn.get(index, 0)
        self._drawn[index] = again + 1
        draw = blake2b(f"{self._run}:{index}:{again}".encode(), digest_size=8).digest()
        return int.from_bytes(draw, "big") < self._rate * 2.0**64


def _parameters(optimizer: Any) -> list[Any] | None:
    groups = getattr(optimizer, "param_groups", None)
    return None if groups is None else [each for group in groups for each in group["params"]]


def _pieces(optimizer: Any) -> list[list[Any]]:
    """Its parameters, apart by which other optimizers have them too.

    Of what two have only the newer capture counts, and captures are dropped as a whole.
    """
    parameters = _parameters(optimizer) or []
    holders = {id(parameter): 0 for parameter in parameters}
    others = [other for other in _core.seen_optimizers() if other is not optimizer]
    for number, other in enumerate(others):
        for parameter in _parameters(other) or []:
            if id(parameter) in holders:
                holders[id(parameter)] |= 1 << number
    pieces: dict[int, list[Any]] = {}
    for parameter in parameters:
        pieces.setdefault(holders[id(parameter)], []).append(parameter)
    return list(pieces.values())


def _is_skipped(optimizer: Any) -> bool:
    """A fused optimizer finds out by itself that mixed precision skips its step.

    On a GPU it is the only one to know, for asking would mean to wait.
    """
    found: Any = getattr(optimizer, "found_inf", None)
    on_host = getattr(getattr(found, "device", None), "type", None) == "cpu"
    return on_host and bool(found.item())


def measure(tensors: list[Any]) -> list[Numbers]:
    """For _core: the statistics of tensors on one device that it cannot read."""
    from sonde.snapshots.fallback import measure as measure_all

    return measure_all(tensors)


def _graph_is_captured() -> bool:
    """Whatever runs on the GPU now would become a part of the program's CUDA graph."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda and cuda.is_initialized() and cuda.is_current_stream_capturing())
