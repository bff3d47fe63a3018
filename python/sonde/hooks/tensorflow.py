"""Keras 3 on any backend, and tf.keras: epoch, batch, validation, predict; metrics as marks.

| what | how |
|---|---|
| fit, evaluate, predict | replaced by name, where the trainer of the backend has them |
| epoch, batch | the methods of ``CallbackList`` that ``fit`` calls, replaced by name |
| metrics | a callback of ours, in the ``CallbackList`` that Keras makes, while the run lasts |
| optimizer_step | on the torch backend ``Optimizer.apply``, replaced by name while the run lasts |

Keras reads the metrics of every batch by itself, whatever callbacks there are, and on most backends
on threads of its own, some time after the batch. Our callback takes those floats and never reads a
tensor: no synchronisation is added. When a batch begins and ends is seen where ``CallbackList`` is
called, on the training thread; so a span also covers what the user's callbacks do in it.

No batches are recorded in a validation or a predict. With ``steps_per_execution=n`` one batch span
covers n steps and has the number of the first. Where the backend fetches before the batch begins
(torch, jax), so does the tree.
"""

from __future__ import annotations

from collections import deque
from functools import update_wrapper
from numbers import Real
from threading import local
from weakref import ref

from sonde import _core, facts, log, snapshots
from sonde.hooks.patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook

    Logs = Mapping[str, object] | None


def install(keras: ModuleType, patches: Patches, hook: Hook) -> None:
    state = _State(keras, patches)
    for name, make_run in (("fit", _Fit), ("evaluate", _Evaluate), ("predict", _Predict)):
        # Below keras.Model: a subclass that calls super() gets there once.
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
        patches.on_undo(state.optimizers.restore)
    hook.expose(CirronKerasCallback=state.callback_class)


class _Optimizers:
    """On the torch backend ``Optimizer.apply`` is what torch's own optimizers are elsewhere.

    Replaced only while a fit runs that is not compiled: torch.compile would see one frame more.
    """

    def __init__(self, keras: ModuleType) -> None:
        self._owner = next(
            cls for cls in keras.optimizers.Optimizer.__mro__ if "apply" in vars(cls)
        )
        self._users = 0
        self._patches = Patches()

    def watch(self) -> None:
        self._users += 1
        if self._users == 1:
            self._patches = patches = Patches()
            patches.replace(self._owner, "apply", lambda original: self._timed(original, patches))

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.restore()

    def restore(self) -> None:
        self._patches.undo()

    @staticmethod
    def _timed(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not patches.active:
                return original(optimizer, *args, **kwargs)
            # What it returns ends the span when it goes, with this frame if the step raises.
            begun = _core.optimizer_begins(optimizer, (), {})
            result = original(optimizer, *args, **kwargs)
            if begun is not None:
                _core.optimizer_ends(optimizer, *begun)
            return result

        return update_wrapper(apply, original)


class _State:
    """The hook while it is in place."""

    def __init__(self, keras: ModuleType, patches: Patches) -> None:
        self.callback_class = _callback_class(keras)
        backend = keras.backend.backend()
        self.optimizers = _Optimizers(keras) if backend == "torch" else None
        self.frameworks = (backend,) if backend == "tensorflow" else (backend, "keras")
        self._patches = patches
        self._failed = False
        self._local = local()

    @property
    def active(self) -> bool:
        return self._patches.active and not self._failed

    def runs(self) -> list[_Run]:
        """Of this thread, the innermost last."""
        found: list[_Run] | None = getattr(self._local, "runs", None)
        if found is None:
            found = self._local.runs = []
        return found

    def innermost(self) -> _Run | None:
        runs = self.runs()
        return runs[-1] if runs and self.active else None

    def safely(self, action: Callable[..., Any], *args: Any) -> Any:
        """Training goes on, whatever happens in the hook."""
        try:
            return action(*args)
        except Exception as error:
            if not self._failed:
                self._failed = True
                log.warn(
                    "cirron.hooks.tensorflow",
                    f"the Keras hook failed and steps aside ({type(error).__name__}: {error}); "
                    "training goes on without its spans",
                )
            return None

    def around_run(self, kind: type[_Run]) -> Callable[[Any], Any]:
        """For fit, evaluate and predict."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(model: Any, /, *args: Any, **kwargs: Any) -> Any:
                if not self.active:
                    return original(model, *args, **kwargs)
                run = kind(self)
                since = _core.opened_next()
                self.safely(run.begin, model, kwargs.get("callbacks"))
                try:
                    return original(model, *args, **kwargs)
                except BaseException as error:
                    _core.exception_passes(error, since)
                    raise
                finally:
                    self.safely(run.end)

            return update_wrapper(call, original)

        return make

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
        self.callbacks: Any = None  # the CallbackList, once it is known
        self.callback: Any = None  # ours in it
        self.scope: _core.scope | None = None

    def begin(self, model: Any, callbacks: object) -> None:
        for framework in self.state.frameworks:
            facts.use(framework)
        self.state.runs().append(self)
        _core.announced_begins()

    def end(self) -> None:
        runs = self.state.runs()
        if self in runs:
            runs.remove(self)
            _core.announced_ends()
        if self.callback is not None and self.callback in self.callbacks.callbacks:
            self.callbacks.callbacks.remove(self.callback)

    def adopt(self, callbacks: Any) -> None:
        """This CallbackList is ours. Its list is Keras's own, also if the user made it."""
        self.callbacks = callbacks
        self.callback = self.state.callback_class(self)
        callbacks.callbacks.append(self.callback)

    def open(self, name: str, index: int | None = None) -> _core.scope:
        scope = _core.scope(name, index, gpu=self.state.optimizers is not None)
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
        named = _core.level_open("validation")
        super().begin(model, callbacks)
        if not named:
            self.scope = self.open("validation")

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
        self.optimizers: _Optimizers | None = None
        self.model: Callable[[], Any] = lambda: None
        # Batches whose metrics are on their way; metrics of which marks are still to be made.
        self.expected: dict[int, _core.scope | None] = {}
        self.arrived: deque[tuple[_core.scope | None, Logs]] = deque()

    def begin(self, model: Any, callbacks: object) -> None:
        # Whoever has such a scope open around the fit owns that level.
        self.owns_epochs = not _core.level_open("epoch")
        self.owns_batches = not _core.level_open("step")
        super().begin(model, callbacks)
        self.model = ref(model)
        snapshots.lead(model)
        optimizers = self.state.optimizers
        if optimizers is not None and not model.jit_compile:
            optimizers.watch()
            self.optimizers = optimizers

    def end(self) -> None:
        try:
            self.write_marks()
        finally:
            if self.optimizers is not None:
                self.optimizers.release()
            _close(self.batch)
            _close(self.scope)
            snapshots.release(self.model())
            super().end()

    def begin_epoch(self, number: int) -> None:
        if self.owns_epochs:
            self.scope = self.open("epoch", number)

    def begin_batch(self, number: int) -> None:
        self.finish_batches()
        if self.owns_batches:
            self.batch = self.open("batch", number)

    def expect_logs(self, number: int) -> None:
        self.expected[number] = self.batch

    def end_batch(self) -> None:
        self.write_marks()
        batch, self.batch = self.batch, None
        _close(batch)

    def finish_batches(self, number: int = 0) -> None:
        """Before anything that is no part of the last batch."""
        batch, self.batch = self.batch, None
        # Begun but never ended: the data ran out. There was no such batch.
        if batch is not None and not _core.drop_scope(batch):
            _close(batch)
        self.write_marks()

    def finish_epoch(self, number: int) -> None:
        """Before the callbacks hear of its end: one of them may load other weights."""
        self.finish_batches()
        if self.scope is not None and snapshots.wanted():
            _core.epoch_over()

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
        """On any thread; the marks are made on that of the run."""
        if number in self.expected:
            self.arrived.append((self.expected.pop(number), logs))

    def epoch_logs(self, logs: Logs) -> None:
        _mark(self.scope, logs, summary=True)


def _callback_class(keras: ModuleType) -> Any:
    class CirronKerasCallback(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Takes what Keras reports to where the run keeps it. Put in place by the hook."""

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

    return CirronKerasCallback


def _close(scope: _core.scope | None) -> None:
    if scope is not None:
        scope.__exit__(None, None, None)


def _mark(scope: _core.scope | None, logs: Logs, *, summary: bool = False) -> None:
    """What is a number by now, on that scope, or on the user's that stands for it."""
    for name, value in (logs or {}).items():
        if not isinstance(name, str) or not isinstance(value, Real):
            continue
        if scope is not None:
            _core.mark_on(scope, name, float(value), summary)
        else:
            _core.mark(name, float(value), kind="summary" if summary else "point")
