"""Loops that programs write: Keras optimizers on torch, ``tf.GradientTape``, ``tf.function``.

| what | how |
|---|---|
| forward | from ``GradientTape.__enter__`` to ``__exit__``, the outermost tape |
| backward | ``GradientTape.gradient`` |
| optimizer_step | ``Optimizer.apply`` of Keras, which ``apply_gradients`` calls |
| compiled_step | a call of a ``tf.function`` in whose tracing ``Optimizer.apply`` was seen |
| no forward | layers called to build a model, on the torch backend |

All are replaced by name. While TensorFlow traces a function, the same methods run once to build a
graph and compute nothing. Then they are no spans, but show that the function trains.
"""

from __future__ import annotations

import sys
from functools import update_wrapper
from threading import local
from weakref import WeakSet

from sonde import _core, facts
from sonde.hooks.patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def end_own_loops() -> None:
    """Ends the loops when a hook is removed, unless torch is imported: its hook follows them."""
    if "torch" not in sys.modules:
        _core.loops.finish_all()


class TorchOptimizers:
    """Steps of Keras optimizers on the torch backend: ``Optimizer.apply``, replaced by name.

    While a compiled fit runs, it is not replaced: torch.compile would see one frame more.
    """

    def __init__(self, keras: ModuleType) -> None:
        self._owner = _owner_of_apply(keras)
        self._patches = Patches()
        self._compiled = 0

    def watch(self) -> None:
        self._patches = patches = Patches()
        patches.replace(self._owner, "apply", lambda original: self._timed(original, patches))

    def restore(self) -> None:
        self._patches.undo()

    def begin_compiled(self) -> None:
        self._compiled += 1
        if self._compiled == 1:
            self.restore()

    def end_compiled(self, *, watch: bool) -> None:
        self._compiled -= 1
        if self._compiled == 0 and watch:
            self.watch()

    @staticmethod
    def _timed(original: Callable[..., Any], patches: Patches) -> Callable[..., Any]:
        is_compiling = sys.modules["torch"].compiler.is_compiling

        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not patches.active:
                return original(optimizer, *args, **kwargs)
            _core.torch.begin_optimizer(optimizer, (), {})
            try:
                result = original(optimizer, *args, **kwargs)
            except BaseException as error:
                _core.torch.end_failed_optimizer(optimizer, error)
                raise
            _core.torch.end_optimizer(optimizer, (), {})
            return result

        return update_wrapper(apply, original)


def hook_building(keras: ModuleType, patches: Patches) -> None:
    """A functional model is built by calling its layers; on torch these are modules."""
    _core.torch.set_keras_tensor_type(keras.KerasTensor)
    patches.on_undo(lambda: _core.torch.set_keras_tensor_type(None))

    def quiet(original: Callable[..., Any]) -> Callable[..., Any]:
        def compute_output_spec(*args: Any, **kwargs: Any) -> Any:
            if not patches.active:
                return original(*args, **kwargs)
            _core.torch.begin_quiet_forwards()
            try:
                return original(*args, **kwargs)
            finally:
                _core.torch.end_quiet_forwards()

        return update_wrapper(compute_output_spec, original)

    patches.replace(keras.src.backend, "compute_output_spec", quiet)


class Tapes:
    """TensorFlow's own loops, eager or compiled."""

    def __init__(self, tensorflow: ModuleType, patches: Patches) -> None:
        self._tensorflow = tensorflow
        self._is_eager: Callable[[], bool] = tensorflow.executing_eagerly
        self._patches = patches
        self._told = False  # the session knows that TensorFlow is used
        self._local = _Local()
        self._training: WeakSet[Any] = WeakSet()  # tf.functions that take a step
        self._dispatch: bool | None = None
        self._owned = False  # the program has an optimizer, so it does not update by hand
        # A trainer (the fit of Keras) opens and compiles its steps itself.
        self.in_trainer: Callable[[], bool] = lambda: False
        self.aside = False  # the trainer's hook has failed: the trainer would look like a loop

    def install(self) -> None:
        tape = self._tensorflow.GradientTape
        self._patches.replace(tape, "__enter__", self._around_enter)
        self._patches.replace(tape, "__exit__", self._around_exit)
        self._patches.replace(tape, "gradient", self._around_gradient)
        function = type(self._tensorflow.function(lambda: None))
        self._patches.replace(function, "__call__", self._around_function)

    def hook_optimizers(self, keras: ModuleType) -> None:
        optimizer = _owner_of_apply(keras)
        self._patches.replace(optimizer, "apply", self._around_apply)
        self._patches.replace(optimizer, "__init__", self._around_init)

    def _around_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            self._owned = True
            original(optimizer, *args, **kwargs)

        return update_wrapper(__init__, original)

    @property
    def _only_dispatch(self) -> bool:
        """Whether a device does the work, so that the host only hands it over."""
        if self._dispatch is None:  # asked once the program has computed something
            devices = self._tensorflow.config.list_logical_devices()
            self._dispatch = any(device.device_type != "CPU" for device in devices)
        return self._dispatch

    @property
    def _active(self) -> bool:
        return self._patches.active and not self.aside

    def _sees(self) -> bool:
        return self._active and self._is_eager()

    def _is_used(self) -> None:
        """The program trains in a loop of TensorFlow."""
        if not self._told:
            self._told = True
            facts.use("tensorflow")

    def _around_enter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __enter__(tape: Any) -> Any:  # noqa: N807
            here = self._local
            if here.tape is None and self._sees():
                here.tape = tape
                here.forward = _core.loops.begin_module("forward", self._only_dispatch, self._owned)
            return original(tape)

        return update_wrapper(__enter__, original)

    def _around_exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __exit__(tape: Any, kind: Any, value: Any, trace: Any) -> Any:  # noqa: N807
            self._end_forward(tape, value)
            return original(tape, kind, value, trace)

        return update_wrapper(__exit__, original)

    def _end_forward(self, tape: object, error: BaseException | None) -> None:
        here = self._local
        if here.tape is tape:
            number, here.tape, here.forward = here.forward, None, 0
            _core.loops.end_module(number, error)

    def _around_gradient(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(tape: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._sees():
                return original(tape, *args, **kwargs)
            self._end_forward(tape, None)  # called inside the with statement of the tape
            self._is_used()
            number = _core.loops.begin_module("backward", self._only_dispatch, self._owned)
            try:
                result = original(tape, *args, **kwargs)
            except BaseException as error:
                _core.loops.end_module(number, error)
                raise
            _core.loops.end_module(number, None)
            return result

        return update_wrapper(gradient, original)

    def _around_apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._active:
                return original(optimizer, *args, **kwargs)
            if not self._is_eager():
                self._seen_in_tracing()
                return original(optimizer, *args, **kwargs)
            self._owned = True
            self._is_used()
            number = _core.loops.begin_update(optimizer, False, self._only_dispatch)
            try:
                result = original(optimizer, *args, **kwargs)
            except BaseException as error:
                _core.loops.end_update(number, error)
                raise
            _core.loops.end_update(number, None)
            return result

        return update_wrapper(apply, original)

    def _seen_in_tracing(self) -> None:
        """The function that the program has called trains: its call is a step."""
        here = self._local
        if here.function is not None and here.function not in self._training:
            self._training.add(here.function)
            self._begin_compiled()

    def _begin_compiled(self) -> None:
        if not self.in_trainer():
            self._is_used()
            here = self._local
            here.update = _core.loops.begin_update(here.function, True, self._only_dispatch)

    def _around_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        here = self._local

        def __call__(function: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if here.function is not None or not self._sees():
                return original(function, *args, **kwargs)
            here.function = function
            raised: BaseException | None = None
            try:
                if function in self._training:
                    self._begin_compiled()
                return original(function, *args, **kwargs)
            except BaseException as error:
                raised = error
                raise
            finally:
                here.function = None
                number, here.update = here.update, 0
                if number:
                    _core.loops.end_update(number, raised)
                raised = None  # avoids a reference cycle with its frame

        return update_wrapper(__call__, original)


class _Local(local):
    """What is open on this thread."""

    tape: object = None  # the outermost open tape
    forward = 0  # its number
    function: Any = None  # the outermost tf.function
    update = 0  # its number, if it trains


def _owner_of_apply(keras: ModuleType) -> type:
    found: type = next(cls for cls in keras.optimizers.Optimizer.__mro__ if "apply" in vars(cls))
    return found
