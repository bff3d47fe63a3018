"""Lightning 2.x, as ``lightning`` and as ``pytorch_lightning``.

Every Trainer that is made while the hook is in place gets one of our callbacks, through Lightning's
entry points (see pyproject.toml). A Trainer that was made earlier is left alone.

| what | how |
|---|---|
| epoch | from ``on_train_epoch_start`` to the next one, or ``on_train_end``; the Trainer's number |
| step | opened by torch's fetch; its index is the ``batch_idx`` of its (first) batch |
| optimizer_step | begins after the closure, in which Lightning runs forward and backward |
| validation, test, predict | ``run`` of their loops, replaced by name; the sanity check says so |
| logged values | where Lightning hands them to its loggers: two methods, replaced by name |

Logged values become marks under the names that Lightning's loggers see: those of a step are points
on the step, those of an epoch, a validation or a test are summaries on it. Reading a value that
lies on a GPU waits for the GPU. So of a step's values on a GPU, only those are taken that
Lightning reads itself: in the progress bar, or by a logger every ``log_every_n_steps``. The values
at the end of an epoch or of a validation are read once.
"""

from __future__ import annotations

from functools import update_wrapper
from importlib import import_module
from weakref import WeakSet

from sonde import _core, face, facts, log, snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook
    from sonde.hooks.patches import Patches

    Method = Callable[..., Any]

LOGGER = "hooks.lightning"

# Packages where the hook is in place. A callback may outlive its session and be used in the next.
_installed: set[str] = set()
_classes: dict[tuple[str, str], type] = {}  # by package and face
_busy: WeakSet[_Events] = WeakSet()  # callbacks of Trainers that are running


def install(package: ModuleType, patches: Patches, hook: Hook) -> None:
    name = package.__name__
    loops = import_module(f"{name}.loops")
    connector = import_module(
        f"{name}.trainer.connectors.logger_connector.logger_connector"
    )._LoggerConnector
    _installed.add(name)
    patches.on_undo(lambda: _installed.discard(name))
    hook.on_uninstall(_end_all)
    for loop in (loops._EvaluationLoop, loops._PredictionLoop):
        patches.replace(loop, "run", _in_span)
    patches.replace(connector, "log_metrics", _followed_by(_Events.logged))
    patches.replace(connector, "update_train_step_metrics", _followed_by(_Events.step_logged))


def _end_all() -> None:
    for events in list(_busy):
        events.end()


# -- how a Trainer gets its callback --


def callbacks() -> list[Any]:
    """For the entry point of ``lightning``."""
    return _callbacks("lightning.pytorch")


def standalone_callbacks() -> list[Any]:
    """For the entry point of ``pytorch_lightning``."""
    return _callbacks("pytorch_lightning")


def _callbacks(package: str) -> list[Any]:
    try:
        return [make_callback(package)] if package in _installed else []
    except Exception as error:
        log.swallowed("hooks.lightning")
        log.warn(
            LOGGER,
            f"this Lightning Trainer is not recorded ({type(error).__name__}: {error}); "
            "training goes on, but please report this",
        )
        return []


def make_callback(package: str) -> Any:
    """Each package has its own base class, and accepts only callbacks of that class."""
    key = package, face.current().name
    kind = _classes.get(key)
    if kind is None:
        base = import_module(package).Callback
        made: type[Any] = type("Callback", (_Events, base), {"package": package})
        kind = _classes[key] = face.named(made, "Callback")
    return kind()


def _events_of(trainer: Any) -> _Events | None:
    for callback in trainer.callbacks:
        if isinstance(callback, _Events):
            return callback if callback.package in _installed else None
    return None


# -- what is replaced --


def _in_span(original: Method) -> Method:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        events = _events_of(self.trainer)
        since = _core.scopes.next_sequence()
        scope = None if events is None else events.loop_begins(self.trainer)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            if events is not None:
                _core.scopes.note_exception(error, since)
            raise
        finally:
            if events is not None and scope is not None:
                events.end_loop(scope)

    return update_wrapper(run, original)


def _followed_by(report: Method) -> Callable[[Method], Method]:
    def followed(original: Method) -> Method:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if (events := _events_of(self.trainer)) is not None:
                report(events, self, *args, **kwargs)
            return result

        return update_wrapper(method, original)

    return followed


def _guarded(method: Method) -> Method:
    """Does nothing without a session. An error is logged once, and training goes on."""

    def guarded(self: _Events, *args: Any, **kwargs: Any) -> Any:
        if self.has_failed or self.package not in _installed:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.has_failed = True
            log.swallowed("hooks.lightning")
            self.end()
            log.warn(
                LOGGER,
                f"this Lightning Trainer is no longer recorded ({type(error).__name__} in "
                f"{method.__name__}: {error}); training goes on, but please report this",
            )
            return None

    return update_wrapper(guarded, method)


# -- the callback --


class _Events:
    """What Lightning tells a callback. Belongs to one Trainer."""

    package = ""

    def __init__(self) -> None:
        self.has_failed = False
        self.leads = False  # inside fit
        self.since = 0  # number of the first span that may be its own
        self.in_epoch = False
        self.epoch: _core.scope | None = None  # None also where another epoch is open around it
        self.loops: list[_core.scope] = []  # validation, test, prediction
        self.in_step = False
        self.is_taken = False  # the optimizer of this step has been called
        self.was_read = False  # Lightning has read the values of this step
        self.seen: dict[str, object] = {}  # the last value of a step under each key

    def __reduce__(self) -> Any:
        return make_callback, (self.package,)  # for processes that Lightning spawns

    @_guarded
    def on_fit_start(self, trainer: Any, module: Any) -> None:
        self.end()  # of a fit that raised before it told its end
        facts.use("lightning")
        _busy.add(self)
        self.leads = True
        self.since = _core.scopes.next_sequence()
        _core.loops.begin_trainer()
        _core.torch.know_model(module)  # its training_step may call only its parts
        snapshots.lead(module)

    @_guarded
    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self.end_epoch()
        self.begin_epoch(trainer)

    @_guarded
    def on_train_batch_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        if not self.in_epoch:
            self.begin_epoch(trainer)  # resumed inside an epoch, whose start is not told again
        if not self.in_step:
            self.in_step = True
            # The argument is wrong for a training_step that takes the iterator.
            _core.loops.begin_step(trainer.fit_loop.batch_idx)
        if snapshots.wanted():
            _core.loops.begin_turn(bool(trainer.is_last_batch))

    @_guarded
    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        self.is_taken = True
        _core.loops.end_closure()

    @_guarded
    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        if self.is_taken:
            self.in_step = self.is_taken = False
            _core.loops.note_step_over()

    @_guarded
    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self.in_step = self.is_taken = False
        _core.loops.end_step()
        if self.epoch is not None:
            _core.loops.end_epoch()

    # Not only with a session: the session may have ended during the fit.

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.end_epoch()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        if self.leads:
            _core.scopes.note_exception(exception, self.since)
        self.end()
        snapshots.release(module)

    def teardown(self, trainer: Any, module: Any, stage: str) -> None:
        self.end()
        snapshots.release(module)

    # -- spans --

    def begin_epoch(self, trainer: Any) -> None:
        self.in_epoch = True
        if not _core.scopes.is_level_open("epoch"):
            self.epoch = _core.scope("epoch", trainer.current_epoch, gpu=True)
            self.epoch.__enter__()

    def end_epoch(self) -> None:
        if self.in_epoch:
            _core.loops.end_step()
        if self.epoch is not None:
            self.epoch.__exit__(None, None, None)
        self.epoch = None
        self.in_epoch = self.in_step = self.is_taken = False
        self.seen.clear()

    def end(self) -> None:
        while self.loops:
            self.end_loop(self.loops[-1])
        self.end_epoch()
        _busy.discard(self)
        if self.leads:
            self.leads = False
            _core.loops.end_trainer()

    @_guarded
    def loop_begins(self, trainer: Any) -> _core.scope | None:
        """Opens the span of a validation, test or prediction."""
        facts.use("lightning")
        _busy.add(self)
        if self.in_epoch and not self.in_step:
            _core.loops.end_step()
        if trainer.sanity_checking:
            scope = _core.scope("validation", gpu=True, sanity=True)
        else:
            name = "test" if trainer.testing else "predict" if trainer.predicting else "validation"
            scope = _core.scope(name, gpu=True)
        if scope.name == "validation" and _core.scopes.is_level_open("validation"):
            return None
        self.loops.append(scope)
        return _core.scopes.claim_levels(scope, True, True, True).__enter__()

    def end_loop(self, scope: _core.scope) -> None:
        if scope in self.loops:
            self.loops.remove(scope)
            scope.__exit__(None, None, None)

    # -- values --

    @_guarded
    def logged(self, connector: Any, metrics: Any, step: Any = None) -> None:
        """Lightning hands values to its loggers. If there are any, it has read the values."""
        trainer = connector.trainer
        of_a_step = connector._first_loop_iter is not None
        is_read = bool(trainer.loggers)
        if of_a_step and trainer.training:
            self.was_read = is_read  # step_logged comes next
            return
        for name, value in metrics.items():
            if not of_a_step or is_read or _is_free(value):
                _core.mark(name, _plain(value), kind="point" if of_a_step else "summary")

    @_guarded
    def step_logged(self, connector: Any) -> None:
        """A training batch is over, and the values it logged are known."""
        is_read, self.was_read = self.was_read, False
        results = connector.trainer._results
        for key, result in results.valid_items():
            value = result._forward_cache
            # A value stays there until another value is logged under its name.
            if not (result.meta.on_step and result.meta.logger) or self.seen.get(key) is value:
                continue
            self.seen[key] = value
            name = results._forked_name(result, True)[1]
            if is_read or _is_free(value):
                _core.mark(name, _plain(value))
            elif name in connector._progress_bar_metrics:
                _core.mark(name, _plain(connector._progress_bar_metrics[name]))


def _is_free(value: Any) -> bool:
    """Whether reading the value waits for no device."""
    return bool(getattr(value, "is_cpu", True))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
