"""Keras 3 on any backend, and tf.keras: epoch, batch, validation, predict; metrics as marks.

| what | how |
|---|---|
| fit, evaluate, predict | replaced by name, where the trainer of the backend has them |
| epoch, batch | the methods of ``CallbackList`` that ``fit`` calls, replaced by name |
| metrics | a callback of ours, in the ``CallbackList`` that Keras makes, while the run lasts |
| loops without fit | own_loops.py |
| device time | on jax: a callback of ours, which Keras calls on threads of its own when |
| | the metrics of a batch have arrived: the device has finished it then |

Keras reads the metrics of every batch anyway, on most backends on threads of its own and some time
after the batch. Our callback takes those floats and never reads a tensor, so no synchronisation is
added. The beginning and end of a batch are taken on the training thread, where ``CallbackList`` is
called, so a span also covers the user's callbacks.

No batches are recorded in a validation or a predict. With ``steps_per_execution=n`` one batch span
covers n steps and has the number of the first. Where the backend fetches before the batch begins
(torch, jax), the fetch lies before the batch in the tree, too.

On jax Keras hands a batch to the device and does not wait for it, so the durations of ``batch``,
and of a ``validation`` after it, are the host's. Such spans say so (``timing: dispatch``) and have
the device's time as ``gpu_ns``.
"""

from __future__ import annotations

from collections import deque
from functools import update_wrapper
from numbers import Real
from threading import local
from weakref import ref

from sonde import _core, face, facts, log, snapshots
from sonde.hooks.own_loops import Tapes, TorchOptimizers, end_own_loops, hook_building

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook
    from sonde.hooks.patches import Patches

    Logs = Mapping[str, object] | None


# There is one session at a time; which of the two is imported first depends on the program.
_tapes: Tapes | None = None
_state: _State | None = None


def install(framework: ModuleType, patches: Patches, hook: Hook) -> None:
    if framework.__name__ == "keras":
        _install_trainer(framework, patches, hook)
    else:
        _install_tapes(framework, patches)
        hook.on_uninstall(end_own_loops)
    if _tapes is not None and _state is not None and _state.backend == "tensorflow":
        _tapes.in_trainer = _state.in_run
        _tapes.hook_optimizers(_state.keras)


def _install_tapes(tensorflow: ModuleType, patches: Patches) -> None:
    global _tapes
    _tapes = Tapes(tensorflow, patches)
    patches.on_undo(_forget)
    _tapes.install()


def _forget() -> None:
    global _tapes, _state
    _tapes = _state = None


def _install_trainer(keras: ModuleType, patches: Patches, hook: Hook) -> None:
    global _state
    _state = state = _State(keras, patches)
    patches.on_undo(_forget)
    for name, make_run in (("fit", _Fit), ("evaluate", _Evaluate), ("predict", _Predict)):
        # In a base of keras.Model, so that a subclass that calls super() gets there once.
        owner = next(cls for cls in keras.Model.__mro__ if name in vars(cls))
        patches.replace(owner, name, state.around_run(make_run))
    for name, before, after in (
        ("on_epoch_begin", _Fit.begin_epoch, None),
        ("on_epoch_end", _Fit.finish_epoch, _Fit.end_epoch),
        ("on_train_batch_begin", _Fit.begin_batch, None),
        ("on_train_batch_end", _Fit.expect_logs, _Fit.end_batch),
    ):
        patches.replace(keras.callbacks.CallbackList, name, state.around_event(before, after))
    for name, kind in (("on_train_begin", _Fit), ("on_test_begin", _Evaluate)):
        patches.replace(keras.callbacks.CallbackList, name, state.around_start(kind))
    if state.optimizers is not None:
        hook_building(keras, patches)
        state.optimizers.watch()
        patches.on_undo(state.optimizers.restore)
    hook.expose(**{state.callback_class.__name__: state.callback_class})
    hook.on_uninstall(state.end_runs)


class _State:
    """The hook while it is in place."""

    def __init__(self, keras: ModuleType, patches: Patches) -> None:
        self.keras = keras
        self.backend: str = keras.backend.backend()
        self.callback_class = _callback_class(keras)
        self.clock_class = _clock_class(keras)
        self.optimizers = TorchOptimizers(keras) if self.backend == "torch" else None
        own = self.backend == "tensorflow"
        self.frameworks = (self.backend,) if own else (self.backend, "keras")
        self._patches = patches
        self._failed = False
        self._local = local()

    @property
    def patched(self) -> bool:
        return self._patches.active

    @property
    def active(self) -> bool:
        return self._patches.active and not self._failed

    def runs(self) -> list[_Run]:
        """The runs of this thread, the innermost last."""
        found: list[_Run] | None = getattr(self._local, "runs", None)
        if found is None:
            found = self._local.runs = []
        return found

    def innermost(self) -> _Run | None:
        runs = self.runs()
        return runs[-1] if runs and self.active else None

    def in_run(self) -> bool:
        return self.innermost() is not None

    def safely(self, action: Callable[..., Any], *args: Any) -> Any:
        """Runs code of the hook. If it raises, training goes on without the hook."""
        try:
            return action(*args)
        except Exception as error:
            log.swallowed("hooks.tensorflow")
            if not self._failed:
                self._failed = True
                if _tapes is not None:
                    _tapes.aside = True
                log.warn(
                    "hooks.tensorflow",
                    f"the Keras hook failed and is off ({type(error).__name__}: {error}); "
                    "training goes on without its spans, but please report this",
                )
            return None

    def around_run(self, kind: type[_Run]) -> Callable[[Any], Any]:
        """Replaces fit, evaluate and predict."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(model: Any, /, *args: Any, **kwargs: Any) -> Any:
                if not self.active:
                    return original(model, *args, **kwargs)
                run = kind(self)
                since = _core.scopes.next_sequence()
                self.safely(run.begin, model, kwargs.get("callbacks"))
                try:
                    return original(model, *args, **kwargs)
                except BaseException as error:
                    _core.scopes.note_exception(error, since)
                    raise
                finally:
                    self.end_run(run)

            return update_wrapper(call, original)

        return make

    def end_run(self, run: _Run) -> None:
        if not run.is_over:
            run.is_over = True
            self.safely(run.end)

    def end_runs(self) -> None:
        """Ends the runs of this thread."""
        for run in reversed(self.runs()):
            self.end_run(run)

    def around_start(self, kind: type[_Run]) -> Callable[[Any], Any]:
        """For the first thing that a run of this kind does with its CallbackList."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(callbacks: Any, /, *args: Any, **kwargs: Any) -> Any:
                run = self.innermost()
                if type(run) is kind and run.callbacks is None:
                    self.safely(run.adopt, callbacks)
                return original(callbacks, *args, **kwargs)

            return update_wrapper(call, original)

        return make

    def around_event(
        self, before: Callable[[_Fit, int], None], after: Callable[[_Fit], None] | None
    ) -> Callable[[Any], Any]:
        """For what a CallbackList hears of a fit: its callbacks run between ``before`` and
        ``after``."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(callbacks: Any, /, *args: Any, **kwargs: Any) -> Any:
                run = self.innermost()
                if type(run) is not _Fit or run.callbacks is not callbacks:
                    return original(callbacks, *args, **kwargs)
                self.safely(before, run, *args[:1])
                result = original(callbacks, *args, **kwargs)
                if after is not None:
                    self.safely(after, run)
                return result

            return update_wrapper(call, original)

        return make


class _Run:
    """One call of fit, evaluate or predict, on one thread."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.is_over = False
        self.callbacks: Any = None  # the CallbackList, once it is known
        self.ours: list[Any] = []  # callbacks in it
        self.scope: _core.scope | None = None

    def begin(self, model: Any, callbacks: object) -> None:
        for framework in self.state.frameworks:
            facts.use(framework)
        self.state.runs().append(self)
        _core.loops.begin_announced()

    def end(self) -> None:
        runs = self.state.runs()
        if self in runs:
            runs.remove(self)
            _core.loops.end_announced()
        for callback in self.ours:
            if callback in self.callbacks.callbacks:
                self.callbacks.callbacks.remove(callback)

    def adopt(self, callbacks: Any) -> None:
        """This CallbackList belongs to the run. Keras makes its list, even if the user gave one."""
        self.callbacks = callbacks
        self.ours.append(self.state.callback_class(self))
        callbacks.callbacks.append(self.ours[-1])

    def open(
        self, name: str, index: int | None = None, *, queued: bool = False, dispatch: bool = False
    ) -> _core.scope:
        """Opens a scope. ``queued``: the device's time comes from the queue that a fit watches."""
        attributes = {_core.attrs.TIMING: _core.attrs.DISPATCH} if dispatch else {}
        gpu = queued or self.state.optimizers is not None
        scope = _core.scope(name, index, gpu=gpu, **attributes)
        scope.__enter__()
        return scope


class _Predict(_Run):
    def begin(self, model: Any, callbacks: object) -> None:
        super().begin(model, callbacks)
        self.scope = self.open("predict")

    def end(self) -> None:
        _close(self.scope)
        super().end()


class _Evaluate(_Run):
    def begin(self, model: Any, callbacks: object) -> None:
        around = self.state.innermost()
        if type(around) is _Fit and callbacks is not None and around.callbacks is callbacks:
            # The validation of a fit, whose CallbackList it shares: its metrics are the epoch's.
            around.finish_batches()
            self.callbacks = callbacks
        named = _core.scopes.is_level_open("validation")
        super().begin(model, callbacks)
        if not named:
            fit = around if type(around) is _Fit else None
            self.scope = self.open(
                "validation",
                queued=fit is not None and fit.queued,
                dispatch=fit is not None and fit.dispatches,
            )

    def end(self) -> None:
        _close(self.scope)
        super().end()

    def test_logs(self, logs: Logs) -> None:
        _mark(self.scope, logs, summary=True)


class _Fit(_Run):
    def __init__(self, state: _State) -> None:
        super().__init__(state)
        self.batch: _core.scope | None = None
        self.owns_epochs = self.owns_batches = False
        self.compiled = False  # by torch
        self.queued = False  # by jax: handed to the device, not waited for
        self.pieces: dict[int, int] = {}  # work on its way, by number of the batch
        self.model: Callable[[], Any] = lambda: None
        # Batches whose metrics have not arrived; metrics that have not become marks yet.
        self.expected: dict[int, _core.scope | None] = {}
        self.arrived: deque[tuple[_core.scope | None, Logs]] = deque()

    def begin(self, model: Any, callbacks: object) -> None:
        # A scope of that name that is open around the fit owns the level.
        if self.state.innermost() is None:
            _core.loops.note_step_over()  # of an earlier loop, if it is still open
        self.owns_epochs = not _core.scopes.is_level_open("epoch")
        self.owns_batches = not _core.scopes.is_level_open("step")
        super().begin(model, callbacks)
        self.model = ref(model)
        snapshots.lead(model)
        if self.state.backend == "jax":
            self.queued = True
            _core.device.watch_queue()
        if self.state.optimizers is not None and model.jit_compile:
            self.state.optimizers.begin_compiled()
            self.compiled = True

    def adopt(self, callbacks: Any) -> None:
        super().adopt(callbacks)
        if self.queued:
            # Before those of the user, which may take their time.
            self.ours.append(self.state.clock_class(self))
            callbacks.callbacks.insert(0, self.ours[-1])

    @property
    def dispatches(self) -> bool:
        """Whether a batch ends before the device has finished it: Keras waits for the metrics,
        unless all callbacks may be called from other threads."""
        return self.queued and bool(getattr(self.callbacks, "_async_train", True))

    def end(self) -> None:
        try:
            self.write_marks()
        finally:
            if self.compiled and self.state.optimizers is not None:
                self.state.optimizers.end_compiled(watch=self.state.patched)
            _close(self.batch)
            _close(self.scope)
            self.end_queue()
            snapshots.release(self.model())
            super().end()

    def end_queue(self) -> None:
        if self.queued:
            if self.pieces:  # the fit has raised
                _core.device.abandon_work(max(self.pieces.values()))
            _core.device.unwatch_queue()

    def begin_epoch(self, number: int) -> None:
        if self.owns_epochs:
            self.scope = self.open("epoch", number, queued=self.queued)

    def begin_batch(self, number: int) -> None:
        self.finish_batches()
        if self.owns_batches:
            self.batch = self.open("batch", number, queued=self.queued, dispatch=self.dispatches)

    def expect_logs(self, number: int) -> None:
        self.expected[number] = self.batch
        if self.queued:
            self.pieces[number] = _core.device.begin_work()

    def batch_done(self, number: int) -> None:
        """Called on any thread."""
        piece = self.pieces.pop(number, 0)
        if piece:
            _core.device.end_work(piece)

    def end_batch(self) -> None:
        self.write_marks()
        batch, self.batch = self.batch, None
        _close(batch)

    def finish_batches(self, number: int = 0) -> None:
        """Ends the last batch, before something that is no part of it."""
        batch, self.batch = self.batch, None
        # It began and never ended, because the data ran out: there was no such batch.
        if batch is not None and not _core.scopes.cancel(batch):
            _close(batch)
        self.write_marks()

    def finish_epoch(self, number: int) -> None:
        """Before the callbacks of the user hear of the end: one of them may load other weights."""
        self.finish_batches()
        if self.scope is not None and snapshots.wanted():
            _core.loops.end_epoch()

    def end_epoch(self) -> None:
        self.write_marks()
        self.expected.clear()
        epoch, self.scope = self.scope, None
        _close(epoch)

    def write_marks(self) -> None:
        while self.arrived:
            scope, logs = self.arrived.popleft()
            _mark(scope, logs)

    def batch_logs(self, number: int, logs: Logs) -> None:
        """Called on any thread. The marks are made on the thread of the run."""
        if number in self.expected:
            self.arrived.append((self.expected.pop(number), logs))

    def epoch_logs(self, logs: Logs) -> None:
        _mark(self.scope, logs, summary=True)


def _callback_class(keras: ModuleType) -> Any:
    class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Hands what Keras reports to the run. The hook puts it in place."""

        async_safe = True  # on_train_batch_end may come from any thread

        def __init__(self, run: _Run | None = None) -> None:
            super().__init__()
            self.run = run

        def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
            if isinstance(self.run, _Fit):
                self.run.batch_logs(batch, logs)

        def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
            if isinstance(self.run, _Fit) and self.run.state.active:
                self.run.state.safely(self.run.epoch_logs, logs)

        def on_test_end(self, logs: Logs = None) -> None:
            if isinstance(self.run, _Evaluate) and self.run.state.active:
                self.run.state.safely(self.run.test_logs, logs)

    return face.named(KerasCallback, "KerasCallback")


def _clock_class(keras: ModuleType) -> Any:
    class Clock(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Called when the metrics of a batch have arrived: the device has then finished it."""

        async_safe = True

        def __init__(self, run: _Fit) -> None:
            super().__init__()
            self.run = run

        def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
            self.run.batch_done(batch)

    return face.named(Clock, "Clock")


def _close(scope: _core.scope | None) -> None:
    if scope is not None:
        scope.__exit__(None, None, None)


def _mark(scope: _core.scope | None, logs: Logs, *, summary: bool = False) -> None:
    """Marks the values that are numbers, on that scope or on the user's scope in its place."""
    for name, value in (logs or {}).items():
        if not isinstance(name, str) or not isinstance(value, Real):
            continue
        if scope is not None:
            _core.scopes.mark(scope, name, float(value), summary)
        else:
            _core.mark(name, float(value), kind="summary" if summary else "point")
