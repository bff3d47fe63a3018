"""HuggingFace transformers: the Trainer's own run, with torch's spans inside its steps.

    train
      epoch[0]
        step[0]  data_load  forward  backward  optimizer_step
        step[1]  ...
        validation  data_load  forward  ...
      epoch[1]

| scope | from | to |
|---|---|---|
| train | ``train()`` is called | it returns or raises |
| epoch[n] | on_epoch_begin; n is the Trainer's epoch, also when it resumes | see below |
| step[n] | the first fetch for it; n is ``global_step`` before it | the next fetch, or validation |
| validation, predict | ``evaluate()``, ``predict()`` are called | they return or raise |

The Trainer announces the end of an epoch before it logs, evaluates and saves for it. The epoch
stays open for those: a validation lies inside its epoch, beside the steps.

| value | where |
|---|---|
| learning rate of a step, logged values of training | on the step; on the epoch once it has ended |
| logged values of an evaluation | on the validation |
| the last of each that an epoch has delivered | on the epoch, as summary |
| the totals of the run (train_loss, ...); metrics of predict() | on train, predict, as summary |

A value that lies on a GPU is left out: reading it would make the training wait.

``train``, ``evaluate`` and ``predict`` are replaced by name, in Trainer and in every subclass that
has its own; the rest comes from one callback per Trainer, the first in its list, so that scopes of
the program's own callbacks open and close inside ours.
"""

from __future__ import annotations

from functools import update_wrapper
from weakref import WeakSet, ref

from sonde import _core, face, facts, log, snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook
    from sonde.hooks.patches import Patches

    # Ends what was begun.
    End = Callable[[], None]

DEFAULT_PREFIX = "eval"


def install(module: ModuleType, patches: Patches, hook: Hook) -> None:
    trainers = Trainers(module.Trainer, module.TrainerCallback, patches)
    hook.expose(**{trainers.callback_class.__name__: trainers.callback_class})
    patches.replace(module.Trainer, "__init__", trainers.built)
    trainers.cover_with_subclasses(module.Trainer)
    patches.on_undo(trainers.detach)
    hook.on_uninstall(trainers.end_all)


class Trainers:
    """All Trainers of the program: the methods that are replaced, the callback each of them has."""

    def __init__(self, trainer: type, callback: type, patches: Patches) -> None:
        self.callback_class = _callback_class(callback, self)
        self._trainer = trainer
        self._patches = patches
        self._covered: set[type] = set()
        self._attached: WeakSet[Any] = WeakSet()

    @property
    def active(self) -> bool:
        return self._patches.active

    def guard(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs code of the hook. After its first failure the hook does nothing any more."""
        try:
            return work(*args)
        except Exception as error:
            log.swallowed("hooks.transformers")
            if self._patches.active:
                self._patches.active = False
                log.warn(
                    "hooks.transformers",
                    f"the transformers hook failed and is off ({type(error).__name__}: {error}); "
                    "your own scopes still work, but please report this",
                )
            return None

    # -- what is replaced --

    def built(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(trainer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(trainer, *args, **kwargs)
            if self.active:
                self.guard(self.attach, trainer)

        return update_wrapper(__init__, original)

    def cover_with_subclasses(self, trainer: type) -> None:
        self.cover(trainer)
        subclass: type
        for subclass in trainer.__subclasses__():
            self.cover_with_subclasses(subclass)

    def cover(self, trainer: type) -> None:
        if trainer in self._covered:
            return
        self._covered.add(trainer)
        for name, begin in (
            ("train", self._begin_train),
            ("evaluate", self._begin_evaluate),
            ("predict", self._begin_predict),
        ):
            if name in vars(trainer):
                self._patches.replace(trainer, name, self._inside(begin))

    def _inside(
        self, begin: Callable[[Any, tuple[Any, ...], dict[str, Any]], End | None]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def method(trainer: Any, *args: Any, **kwargs: Any) -> Any:
                since = _core.scopes.next_sequence()
                end = self.guard(begin, trainer, args, kwargs) if self.active else None
                if end is None:
                    return original(trainer, *args, **kwargs)
                facts.use("transformers")
                try:
                    return original(trainer, *args, **kwargs)
                except BaseException as error:
                    _core.scopes.note_exception(error, since)
                    raise
                finally:
                    self.guard(end)

            return update_wrapper(method, original)

        return make

    def _begin_train(self, trainer: Any, *_: Any) -> End | None:
        run = self.attach(trainer)
        if run.training:
            return None  # a subclass calls the method of its base
        run.begin_train()
        return run.end_train

    def _begin_evaluate(
        self, trainer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> End | None:
        run = self.attach(trainer)
        dataset = args[0] if args else kwargs.get("eval_dataset")
        if isinstance(trainer.eval_dataset if dataset is None else dataset, dict):
            return None  # it calls itself for each data set
        prefix = kwargs.get("metric_key_prefix", DEFAULT_PREFIX)
        attrs = {} if prefix == DEFAULT_PREFIX else {"prefix": prefix}
        return run.begin_loop(_core.scope("validation", gpu=True, **attrs))

    def _begin_predict(self, trainer: Any, *_: Any) -> End | None:
        scope = _core.scopes.claim_levels(_core.scope("predict", gpu=True), True, True)
        return self.attach(trainer).begin_loop(scope)

    # -- the callback --

    def attach(self, trainer: Any) -> Run:
        """Adds the callback if the Trainer has none, and replaces the methods of its class."""
        for base in type(trainer).__mro__:
            if issubclass(base, self._trainer):
                self.cover(base)
        callbacks = trainer.callback_handler.callbacks
        for callback in callbacks:
            if isinstance(callback, self.callback_class):
                return callback.run  # type: ignore[no-any-return]
        callback = self.callback_class()
        trainer.add_callback(callback)
        callbacks.remove(callback)
        callbacks.insert(0, callback)
        self._attached.add(trainer)
        return callback.run  # type: ignore[no-any-return]

    def end_all(self) -> None:
        for trainer in list(self._attached):
            self.attach(trainer).end()

    def detach(self) -> None:
        for trainer in list(self._attached):
            callbacks = trainer.callback_handler.callbacks
            callbacks[:] = [each for each in callbacks if type(each) is not self.callback_class]


class Run:
    """The scopes that are open for one Trainer."""

    __slots__ = (
        "_began",
        "_epoch",
        "_epoch_over",
        "_loops",
        "_model",
        "_next_epoch",
        "_rate_marked",
        "_stepping",
        "_train",
        "_values",
    )

    def __init__(self) -> None:
        self._train: _core.scope | None = None
        self._epoch: _core.scope | None = None
        self._loops: list[_core.scope] = []  # evaluate, predict
        self._model: Callable[[], Any] | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._began = False  # on_train_begin was seen
        self._next_epoch: int | None = None
        self._epoch_over = False  # on_epoch_end was seen; its log and its evaluation may follow
        self._stepping = False  # between on_step_begin and on_step_end
        self._rate_marked = False
        self._values: dict[str, object] = {}  # the last of each in this epoch

    # -- train --

    @property
    def training(self) -> bool:
        return self._train is not None

    def begin_train(self) -> None:
        self._start_over()
        # Inside a step that is open already, the Trainer opens none.
        steps_taken = _core.scopes.is_open("step")
        self._train = _core.scopes.claim_levels(_core.scope("train", gpu=True), True, steps_taken)
        self._train.__enter__()

    def train_begins(self, model: Any) -> None:
        if self._began:  # the Trainer tries again with a smaller batch
            self.end_train()
            self.begin_train()
        self._began = True
        if model is not None:
            self._model = ref(model)
            snapshots.lead(model)

    def end_train(self) -> None:
        train, self._train = self._train, None
        model, self._model = self._model, None
        try:
            self.end_epoch()
            if model is not None:
                snapshots.release(model())
            if self._epoch_over:
                self._summarize()  # on an epoch of the program, of which this run was a part
        finally:
            if train is not None:
                train.__exit__(None, None, None)

    # -- epoch --

    def begin_epoch(self, reached: float | None) -> None:
        self.end_epoch()
        self._values.clear()
        self._epoch_over = False
        # Counted from the beginning of the run: `reached` lags behind after an epoch was cut short.
        index = int(reached or 0) if self._next_epoch is None else self._next_epoch
        self._next_epoch = index + 1
        if not _core.scopes.is_open("epoch"):
            self._epoch = _core.scope("epoch", index, gpu=True)
            self._epoch.__enter__()

    def epoch_over(self) -> None:
        self._epoch_over = True
        _core.loops.end_step()
        if self._epoch is not None:
            # Now and not later: at its end the best weights of the run may have been loaded.
            _core.loops.end_epoch()

    def end_epoch(self) -> None:
        self._stepping = False
        epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        _core.loops.end_step()
        if self._epoch_over:
            self._summarize()
        epoch.__exit__(None, None, None)

    def _summarize(self) -> None:
        values, self._values = self._values, {}
        for name, value in values.items():
            if name != "epoch":  # how far the run was
                _mark(("epoch",), name, value, summary=True)

    # -- step --

    def begin_step(self, index: int, last: int, optimizer: Any) -> None:
        self._stepping = True
        _core.loops.begin_step(index)
        if snapshots.wanted():
            _core.loops.begin_turn(index + 1 == last)
        groups = getattr(optimizer, "param_groups", None)
        rate = groups[0].get("lr") if groups else None
        self._rate_marked = rate is not None and _mark(("step",), "learning_rate", rate)

    def step_over(self) -> None:
        self._stepping = False
        _core.loops.note_step_over()

    # -- evaluate, predict --

    def begin_loop(self, scope: _core.scope) -> End | None:
        if _core.scopes.is_open(scope.name):
            return None
        if self.training and not self._stepping:
            _core.loops.end_step()  # it is no part of the step that was taken last
        scope.__enter__()
        self._loops.append(scope)
        return lambda: self._end_loop(scope)

    def _end_loop(self, scope: _core.scope) -> None:
        if scope in self._loops:
            self._loops.remove(scope)
            scope.__exit__(None, None, None)

    def end(self) -> None:
        """Ends everything that is open."""
        while self._loops:
            self._end_loop(self._loops[-1])
        if self.training:
            self.end_train()

    # -- values --

    def log(self, logs: Mapping[str, object]) -> None:
        if _core.scopes.is_open("validation"):
            self._values.update(logs)
            _mark_all(("validation",), logs)
        elif not self.training:
            _mark_all((), logs)
        elif "train_loss" in logs and "train_runtime" in logs:  # the last of all
            self.end_epoch()
            _mark_all(("train",), logs, summary=True)
        else:
            self._values.update(logs)
            if not self._epoch_over:
                known = ("learning_rate",) if self._rate_marked else ()
                _mark_all(("step", "epoch", "train"), logs, but=known)

    def predicted(self, metrics: Mapping[str, object]) -> None:
        _mark_all(("predict",), metrics, summary=True)


def _mark_all(
    levels: tuple[str, ...],
    values: Mapping[str, object],
    summary: bool = False,
    but: tuple[str, ...] = (),
) -> None:
    for name, value in values.items():
        if name not in but:
            _mark(levels, name, value, summary)


def _mark(levels: tuple[str, ...], name: str, value: object, summary: bool = False) -> bool:
    """Marks the first of these levels that is open, or the innermost scope. False: not a number."""
    device = getattr(value, "device", None)
    if device is not None and getattr(device, "type", device) != "cpu":
        return False
    try:
        if not any(_core.scopes.mark_innermost(level, name, value, summary) for level in levels):
            _core.mark(name, value, kind="summary" if summary else "point")
    except (TypeError, ValueError):
        return False  # a list, a picture
    return True


def _no_callback() -> Any:
    """The callback in a copy of a Trainer, perhaps in another process. It does nothing."""
    from transformers import TrainerCallback

    return TrainerCallback()


def _callback_class(base: type, trainers: Trainers) -> type[Any]:
    class Callback(base):  # type: ignore[misc]
        """Tells the profiler how far its Trainer is. Every Trainer gets one by itself."""

        def __init__(self) -> None:
            self.run = Run()

        def __reduce__(self) -> Any:
            return _no_callback, ()

        def _tell(self, work: Callable[..., None], *args: Any) -> None:
            if trainers.active and self.run.training:
                trainers.guard(work, *args)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._tell(self.run.train_begins, kwargs.get("model"))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._tell(self.run.begin_epoch, state.epoch)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._tell(
                self.run.begin_step, state.global_step, state.max_steps, kwargs.get("optimizer")
            )

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._tell(self.run.step_over)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._tell(self.run.epoch_over)

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
        ) -> None:
            if trainers.active and logs:
                trainers.guard(self.run.log, logs)

        def on_predict(
            self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
        ) -> None:
            if trainers.active and metrics:
                trainers.guard(self.run.predicted, metrics)

    return face.named(Callback, "TrainerCallback")
