"""Takes the snapshots of one session. Everything here runs on the thread that trains."""

from __future__ import annotations

import sys
from time import monotonic_ns

from sonde import _core, face, log
from sonde.snapshots import why
from sonde.snapshots.epoch import Epoch, Gone, Taken
from sonde.snapshots.farewell import Farewells
from sonde.snapshots.models import Models, has_offloaded, refer, tensors_of, unwrapped
from sonde.snapshots.optimizers import is_skipped, owned_count, pieces
from sonde.snapshots.parents import Parents
from sonde.snapshots.trained import seen_modules, trained_by, trained_by_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sonde.snapshots.fallback import Numbers
    from sonde.snapshots.farewell import ByHand, Pairs
    from sonde.snapshots.models import Reference
    from sonde.snapshots.tensors import Resolved
    from sonde.snapshots.trained import Loose

    # Prefix of the names, and a module or its pairs of name and tensor.
    Sources = list[tuple[str, Any]]

LOGGER = "snapshots.stats"
NO_EPOCH = "no epoch has ended"

# A thread that ends inside an epoch leaves it open. Beyond this number the oldest are dropped.
MOST_OPEN = 64


class Recorder:
    __slots__ = (
        "_drawn",
        "_failed",
        "_farewells",
        "_hook_troubles",
        "_last_found",
        "_mode",
        "_open",
        "_parents",
        "_rate",
        "_records",
        "_run",
        "_said",
        "_submitted",
        "_threads",
        "_trains",
        "_why",
        "models",
    )

    def __init__(
        self,
        mode: str,
        sample_rate: float,
        threads: int,
        run: str,
        hook_troubles: Callable[[], list[str]] = list,
    ) -> None:
        self.models = Models()
        self._mode = mode
        self._rate = sample_rate
        self._threads = threads
        self._run = run
        self._hook_troubles = hook_troubles
        self._failed = False
        self._submitted = False  # has an epoch had its snapshot?
        self._records = 0
        self._why = NO_EPOCH  # the reason, if none has
        self._said = False
        self._trains = False  # has a model had gradients?
        self._farewells = Farewells()
        self._parents = Parents()
        self._last_found: tuple[object, list[Reference]] = None, []
        self._open: dict[int, Epoch] = {}  # by sequence of the span
        self._drawn: dict[int | None, int] = {}  # index of an epoch -> how many there were

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
        self, optimizer: Any, number: int, sequence: int, index: int | None, stack: int, last: bool
    ) -> None:
        self._safely(self._capture_gradients, optimizer, number, sequence, index, stack, last)

    def model_is_trained(self, model: Any) -> None:
        self._trains = True
        self._safely(self._farewells.expect_model, model, self._model_gone)

    def optimizer_gone(self, optimizer: int, groups: Any) -> None:
        """May be called at any time, even during a capture."""
        self._safely(self._capture_gone, *self._farewells.of(optimizer, groups))

    def _model_gone(self, gone: ByHand) -> None:
        """May be called at any time, even during a capture."""
        if (epoch := _core.snapshots.current_epoch()) is None or not (
            pairs := self._farewells.of_model(gone)
        ):
            return
        if self.models.several:
            pairs = [(f"{gone.kind}.{name}", tensor) for name, tensor in pairs]
        self._epoch(*epoch)
        self._safely(self._capture_gone, epoch[0], pairs)

    def finish(self) -> None:
        _core.snapshots.end_open_epochs()
        self._open.clear()
        self._farewells.clear()
        self._say_why()
        if self._records:
            why.count(self._records)

    def reason(self) -> str | None:
        """Why there are no snapshots so far; None if there are some."""
        return None if self._submitted else self._why

    def _say_why(self) -> None:
        if (reason := self.reason()) is None:
            return
        no_epoch = reason is NO_EPOCH
        hook_troubles = self._hook_troubles()
        if no_epoch and not self._trains and not hook_troubles:
            reason += "; no hook saw a model being trained"
        elif no_epoch:
            reason += "; " + face.current().advise("no-epoch")
        sentence = why.tell(reason, hook_troubles)
        if self._said or self._failed:
            return
        if no_epoch and not self._trains:
            return
        self._said = True
        say = log.warn if self._trains else log.info
        say("profiler", f"no snapshots: {sentence}")

    def _safely(self, work: Any, *args: Any) -> None:
        """Runs ``work``. If it raises, there are no more snapshots, and training goes on."""
        if self._failed:
            return
        try:
            work(*args)
        except Exception as error:
            self._failed = True
            log.swallowed("snapshots")
            self._why = f"taking one failed ({type(error).__name__}: {error})"
            self._say_why()
            self._open.clear()
            log.warn(
                LOGGER,
                "no more snapshots in this session, because taking one failed "
                f"({type(error).__name__}: {error}); training goes on, but please report this",
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
        try:
            if _graph_is_captured():
                self._why = "the epoch ended while a CUDA graph was being captured"
                return
            sources = self._sources(epoch, stack, _stepped(steps))
            self.models.end_epoch(stack)
            self._submit(epoch, sources, sequence, index, step, steps)
        finally:
            self._open.pop(sequence, None)

    def _submit(
        self,
        epoch: Epoch,
        sources: Sources,
        sequence: int,
        index: int | None,
        step: int | None,
        steps: dict[int, int],
    ) -> None:
        common: dict[str, Any] = {"sampled": epoch.whole} if self._mode == "sampled" else {}
        weights = self._capture(sources, gradients=False, whole=epoch.whole)
        # What was kept of dead objects is dropped if tensors of the same names exist now.
        gone = [each for each in epoch.gone if each.names.isdisjoint(weights.names)]
        gradients = self._gradients(epoch, sources, steps, weights.names, gone, common)
        kept = [(each, common) for each in (weights, *(each.weights for each in gone)) if each]
        if not kept:
            self._why = self._why_nothing(sources)
            self._say_why()
            return
        more = any(len(captured) for captured, _ in gradients)
        _core.snapshots.submit(kept, sequence, index, step, self._mode, more)
        _core.snapshots.submit(gradients, sequence, index, step, self._mode, False)
        self._submitted = True
        self._records += sum(len(captured) for captured, _ in kept + gradients)

    def _gradients(
        self,
        epoch: Epoch,
        sources: Sources,
        steps: dict[int, int],
        names: list[str],
        gone: list[Gone],
        common: dict[str, Any],
    ) -> list[tuple[_core.snapshots.Captured, dict[str, Any]]]:
        """One gradient of each parameter: from the last step; otherwise the one that the parameter
        has now; otherwise from an earlier step.

        The one that it has now is newer than any from an earlier step. It may be from a step that
        was skipped.
        """
        last = [taken for taken in epoch.taken if taken.likely and taken.is_last(steps)]
        earlier = [taken for taken in epoch.taken if taken not in last]
        skip = set().union(*(taken.names for taken in last))
        left: list[_core.snapshots.Captured] = []
        if not skip.issuperset(names):
            left.append(self._left(epoch, sources, earlier, skip))
        for each in gone:
            zero = earlier and len(each.gradients.zeros()) == len(each.gradients)
            if skip.isdisjoint(each.gradients.names) and not zero:
                left.append(each.gradients)
        # A parameter without a gradient was no part of the last step. The gradients of an earlier
        # step are dropped if any parameter of its optimizer has a gradient now.
        has_some = set().union(*(each.names for each in left))
        found: list[tuple[_core.snapshots.Captured, dict[str, Any]]] = []
        for taken in epoch.taken:
            attrs = common | {"taken": "optimizer_step", "optimizer_step": taken.number}
            if taken in last or has_some.isdisjoint(taken.names):
                attrs |= {} if taken.is_last(steps) else {"last": False}
                found.append((taken.captured, attrs))
        return found + [(each, common | {"taken": "epoch_end"}) for each in left]

    def _left(
        self, epoch: Epoch, sources: Sources, earlier: list[Taken], skip: set[str]
    ) -> _core.snapshots.Captured:
        """The gradients at the end, without those in ``skip``, to which names may be added."""
        rest = self._capture(sources, gradients=True, skip=skip, whole=epoch.whole)
        if not earlier or not (zeros := set(rest.zeros())):
            return rest
        # They were set to zero after the step, so the gradients measured before are used.
        present = set(rest.names)
        lost = [each for each in earlier if each.names & present and each.names & present <= zeros]
        if not lost:
            return rest
        skip.update(*(each.names for each in lost))
        return self._capture(sources, gradients=True, skip=skip, whole=epoch.whole)

    def _capture_gradients(
        self, optimizer: Any, number: int, sequence: int, index: int | None, stack: int, last: bool
    ) -> None:
        # With a trainer of Keras the gradients still exist at the end of the epoch.
        is_torchs = hasattr(optimizer, "param_groups")
        if not owned_count(optimizer) or not (is_torchs or self.models.told(stack) is None):
            return
        epoch = self._epoch(sequence, index)
        epoch.optimizers.add(id(optimizer))
        stepped = [
            each for each in _core.snapshots.seen_optimizers() if id(each) in epoch.optimizers
        ]
        if not any(each is optimizer for each in stepped):
            stepped.append(optimizer)
        sources = self._sources(epoch, stack, stepped)
        self._farewells.expect(optimizer, sources, sequence)
        if not sources or _graph_is_captured() or is_skipped(optimizer):
            return
        # Only the last step is kept whole: copies that may be replaced would cost too much.
        whole = epoch.whole and last
        epoch.taken = [each for each in epoch.taken if each.optimizer != id(optimizer)]
        for parameters in pieces(optimizer):
            captured = self._capture(sources, gradients=True, parameters=parameters, whole=whole)
            taken = Taken(id(optimizer), number, captured, last)
            shared = [each for each in epoch.taken if not taken.names.isdisjoint(each.names)]
            if any(not each.names <= taken.names for each in shared):
                # The other optimizer was captured before this one had ever stepped, so not in
                # pieces. This time its capture stays.
                captured = self._capture(
                    sources,
                    gradients=True,
                    parameters=parameters,
                    skip=set().union(*(each.names for each in shared)),
                    whole=whole,
                )
                taken = Taken(id(optimizer), number, captured, last)
            elif shared:
                epoch.taken = [each for each in epoch.taken if each not in shared]
            if taken.names:
                epoch.taken.append(taken)

    def _capture_gone(self, sequence: int, pairs: Pairs) -> None:
        """Captures what a dying optimizer or model has, for the epoch that is open."""
        epoch, begin = self._open.get(sequence), monotonic_ns()
        if epoch is None or not pairs or not epoch.takes_gone(begin) or _graph_is_captured():
            return
        sources: Sources = [("", pairs)]
        weights = self._capture(sources, gradients=False, whole=epoch.whole)
        gradients = self._capture(sources, gradients=True, whole=epoch.whole)
        epoch.add_gone(Gone(weights, gradients), begin, monotonic_ns())

    # -- what is captured --

    def _sources(self, epoch: Epoch, stack: int, optimizers: list[Any]) -> Sources:
        """Prefix of the names, and a module or its pairs of name and tensor."""
        models = self.models.told(stack)
        loose: list[Loose] = []
        if models is None:
            models, loose = self._trained(epoch, optimizers)
        if epoch.several != self.models.several:
            epoch.several = self.models.several
            if epoch.taken or epoch.gone:
                epoch.forget()
                _core.snapshots.measure_again()
        found = self._tensors(models)
        for optimizer, pairs in loose:
            found.append((f"{self.models.space(type(optimizer).__name__, optimizer)}.", pairs))
        return found

    def _trained(
        self, epoch: Epoch, optimizers: list[Any]
    ) -> tuple[list[tuple[str, Any]], list[Loose]]:
        key = (
            _core.snapshots.seen_version(),
            *((id(each), owned_count(each)) for each in optimizers),
        )
        loose: list[Loose] = []
        found = self._known(key)
        if found is None:
            seen = seen_modules(self._leave_out, self.models.is_left_out)
            found, loose = trained_by(optimizers, seen, self._parents)
            if not found and not loose and not epoch.models([]) and not epoch.gone:
                found = trained_by_hand(seen, _core.snapshots.seen_optimizers())
            elif found and not loose:
                self._last_found = key, [refer(model) for model in found]
        return self.models.named(epoch.models(found)), loose

    def _known(self, key: object) -> list[Any] | None:
        """The models found the last time, if nothing has changed since."""
        if self._last_found[0] != key:
            return None
        models = [model() for model in self._last_found[1]]
        return None if any(model is None for model in models) else models

    def _leave_out(self, model: Any, error: Exception) -> None:
        self.models.leave_out(model)
        log.swallowed("snapshots")
        log.warn(
            LOGGER,
            f"no snapshots of {type(model).__name__}: asking for its tensors failed "
            f"({type(error).__name__}: {error}); fix what the error names",
        )

    def _why_nothing(self, sources: Sources) -> str:
        if sources:
            return "the model has no tensors"
        if self.models.has_left_out():
            return "the model raises when it is asked for its tensors"
        if _core.snapshots.seen_models():
            return f"no optimizer has stepped and no model has had gradients; {_watch()}"
        return f"no model of torch or Keras is known; {_watch()}"

    def _epoch(self, sequence: int, index: int | None) -> Epoch:
        epoch = self._open.get(sequence)
        if epoch is None:
            while len(self._open) >= MOST_OPEN:
                self._open.pop(next(iter(self._open)))
            epoch = self._open[sequence] = Epoch(self._draw(index))
        return epoch

    def _tensors(self, models: list[tuple[str, Any]]) -> Sources:
        found: Sources = []
        for prefix, model in models:
            try:
                found.append((prefix, tensors_of(unwrapped(model))))
            except Exception as error:  # raised by code of the program: go on with the other models
                self._leave_out(model, error)
        return found

    def _capture(
        self,
        sources: Sources,
        *,
        gradients: bool,
        whole: bool,
        parameters: list[Any] | None = None,
        skip: set[str] | None = None,
    ) -> _core.snapshots.Captured:
        def resolve_all(tensors: list[tuple[Any, bool]]) -> list[Resolved]:
            """For _core: what to measure instead of tensors that are not plain memory."""
            from sonde.snapshots.tensors import resolve

            offloaded = any(has_offloaded(source) for _, source in sources)
            return [resolve(tensor, sharded, offloaded) for tensor, sharded in tensors]

        return _core.snapshots.capture(
            sources,
            gradients,
            parameters,
            skip or set(),
            whole,
            self._threads,
            resolve_all,
            measure,
        )

    def _draw(self, index: int | None) -> bool:
        """Are whole tensors kept in this epoch? The answer is the same on every rank.

        An index may come again, with another trainer or on another thread; it is drawn again then.
        """
        if self._mode != "sampled" or not 0.0 < self._rate < 1.0:
            return self._mode == "full" or (self._mode == "sampled" and self._rate >= 1.0)
        from hashlib import blake2b

        again = self._drawn.get(index, 0)
        self._drawn[index] = again + 1
        draw = blake2b(f"{self._run}:{index}:{again}".encode(), digest_size=8).digest()
        return int.from_bytes(draw, "big") < self._rate * 2.0**64


def _stepped(steps: dict[int, int]) -> list[Any]:
    """The optimizers that have taken steps in the epoch."""
    return [each for each in _core.snapshots.seen_optimizers() if id(each) in steps]


def measure(tensors: list[Any]) -> list[Numbers]:
    """For _core: the statistics of tensors on one device that it cannot read."""
    from sonde.snapshots.fallback import measure as measure_all

    return measure_all(tensors)


def _graph_is_captured() -> bool:
    """Whether the program captures a CUDA graph, which work of ours would become a part of."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda and cuda.is_initialized() and cuda.is_current_stream_capturing())


def _watch() -> str:
    return face.current().advise("no-model")
