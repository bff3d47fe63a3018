"""Takes the snapshots of one session. Everything here runs on the thread that trains."""

from __future__ import annotations

import sys
from _thread import get_ident

from sonde import _core, log
from sonde.snapshots.models import Models, has_offloaded, tensors_of, unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sonde.snapshots.fallback import Numbers
    from sonde.snapshots.tensors import Resolved

LOGGER = "cirron.snapshots.stats"


class Taken:
    """The gradients that one optimizer was about to use, measured; the newest of its epoch."""

    __slots__ = ("captured", "number", "optimizer")

    def __init__(self, optimizer: int, number: int, captured: _core.Captured) -> None:
        self.optimizer = optimizer  # its id(), compared only
        self.number = number
        self.captured = captured


class Recorder:
    __slots__ = (
        "_ending",
        "_epochs",
        "_failed",
        "_mode",
        "_rate",
        "_run",
        "_taken",
        "_threads",
        "models",
    )

    def __init__(self, mode: str, sample_rate: float, threads: int, run: str) -> None:
        self.models = Models()
        self._mode = mode
        self._rate = sample_rate
        self._threads = threads
        self._run = run
        self._epochs = 0
        self._failed = False
        self._ending = False
        self._taken: dict[int, list[Taken]] = {}  # by thread

    def watch(self, model: object, name: str | None) -> None:
        if not any(hasattr(model, each) for each in ("named_parameters", "weights", "variables")):
            log.warn(
                "cirron.profiler",
                f"watch(): a {type(model).__name__} has no named_parameters() and no weights; "
                "nothing of it is captured",
            )
            return
        self.models.watch(model, name)

    # -- what _core tells --

    def epoch_ended(self, sequence: int, index: int | None, step: int | None) -> None:
        self._safely(self._capture_epoch, sequence, index, step)

    def gradients_are_final(self, optimizer: Any, number: int, step: int | None) -> None:
        self._safely(self._capture_gradients, optimizer, number, step)

    def finish(self) -> None:
        self._ending = True
        _core.end_open_epochs()
        self._taken.clear()

    def _safely(self, work: Any, *args: Any) -> None:
        """Training goes on, whatever happens in here."""
        if self._failed:
            return
        try:
            work(*args)
        except Exception as error:
            self._failed = True
            self._taken.clear()
            log.warn(
                LOGGER,
                f"no more snapshots in this session, taking one failed "
                f"({type(error).__name__}: {error}); training goes on",
            )

    # -- capturing --

    def _capture_epoch(self, sequence: int, index: int | None, step: int | None) -> None:
        whole = self._is_whole()
        self._epochs += 1
        taken = self._taken.pop(get_ident(), [])
        if self._ending and not taken:  # perhaps by another thread than the one that trains
            taken = [each for held in self._taken.values() for each in held]
            self._taken.clear()
        if _graph_is_captured():
            return
        models = self._chosen()
        self.models.end_epoch()
        if not models:
            return
        common = {"sampled": whole} if self._mode == "sampled" else {}
        weights = self._capture(models, gradients=False, whole=whole)
        known: set[str] = set()
        for each in taken:
            known.update(each.captured.names)
        rest = self._capture(models, gradients=True, skip=known, whole=whole)
        gradients = [
            (each.captured, common | {"taken": "optimizer_step", "optimizer_step": each.number})
            for each in taken
        ]
        gradients.append((rest, common | {"taken": "epoch_end"}))
        _core.submit([(weights, common)], sequence, index, step, self._mode)
        _core.submit(gradients, sequence, index, step, self._mode)

    def _capture_gradients(self, optimizer: Any, number: int, step: int | None) -> None:
        groups = getattr(optimizer, "param_groups", None)
        if groups is None or _graph_is_captured():
            return
        models = self._chosen()
        if not models:
            return
        parameters = [parameter for group in groups for parameter in group["params"]]
        captured = self._capture(
            models, gradients=True, parameters=parameters, whole=self._is_whole()
        )
        taken = self._taken.setdefault(get_ident(), [])
        taken[:] = [each for each in taken if each.optimizer != id(optimizer)]
        if captured.names:
            taken.append(Taken(id(optimizer), number, captured))

    def _chosen(self) -> list[tuple[str, Any]]:
        return [(prefix, tensors_of(unwrapped(model))) for prefix, model in self.models.chosen()]

    def _capture(
        self,
        models: list[tuple[str, Any]],
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
            self._resolve,
            measure,
        )

    def _resolve(self, tensors: list[tuple[Any, bool]]) -> list[Resolved]:
        """For _core: of tensors that are not plain memory, what to measure instead."""
        from sonde.snapshots.tensors import resolve

        offloaded = any(has_offloaded(model) for _, model in self.models.chosen())
        return [resolve(tensor, sharded, offloaded) for tensor, sharded in tensors]

    def _is_whole(self) -> bool:
        """Are the tensors of the epoch under way kept as they are? The same on every rank."""
        if self._mode != "sampled" or not 0.0 < self._rate < 1.0:
            return self._mode == "full" or (self._mode == "sampled" and self._rate >= 1.0)
        from hashlib import blake2b

        draw = blake2b(f"{self._run}:{self._epochs}".encode(), digest_size=8).digest()
        return int.from_bytes(draw, "big") < self._rate * 2.0**64


def measure(tensors: list[Any]) -> list[Numbers]:
    """For _core: the statistics of tensors on one device that it cannot read."""
    from sonde.snapshots.fallback import measure as measure_all

    return measure_all(tensors)


def _graph_is_captured() -> bool:
    """Whatever runs on the GPU now would become a part of the program's CUDA graph."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda and cuda.is_initialized() and cuda.is_current_stream_capturing())
