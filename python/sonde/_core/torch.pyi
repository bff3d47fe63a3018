"""The hooks of PyTorch: what `sonde/hooks/torch.py` puts in place."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")

def on_first_use(callback: Callable[[], None] | None) -> None:
    """Calls ``callback`` once, when torch's hooks first have something to record; None: never."""

def find_functions() -> None:
    """Looks up what the hooks ask of torch on every step. RuntimeError: it is not imported."""

def forget_functions() -> None:
    """The hooks ask torch nothing any more."""

def hook_module_call(function: Callable[..., object]) -> bool:
    """Calls of this function object are forwards from now on; false if they were before."""

def unhook_module_calls() -> None:
    """Everything hook_module_call did is undone."""

def begin_quiet_forwards() -> None:
    """Calls of modules on this thread are no forwards until ``end_quiet_forwards``. Calls nest."""

def end_quiet_forwards() -> None:
    """Ends what ``begin_quiet_forwards`` began."""

def living_modules() -> list[Any]:
    """Every torch module of the process. Takes some milliseconds."""

def know_model(module: object) -> None:
    """Forwards of this model's parts get their names in the model, even if it is never called."""

def set_keras_tensor_type(type: type | None) -> None:
    """Modules called with a value of this type compute nothing, and are no forwards.

    It stands for a value while a Keras model is being built. None: there is no such type.
    """

def iterate_loader(
    original: Callable[[_T], Iterator[object]], loader: _T, length: Callable[[_T], int]
) -> Iterator[object]:
    """What original(loader) returns, with its fetches on record."""

def time_backward(original: Callable[..., object]) -> Callable[..., object]:
    """A callable that does what original does inside a backward span."""

def begin_optimizer(optimizer: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """torch's global optimizer hook before a step."""

def end_optimizer(optimizer: object, args: object, kwargs: object) -> None:
    """torch's global optimizer hook after a step."""

def end_failed_optimizer(optimizer: object, exception: BaseException) -> None:
    """In place of end_optimizer, for a step that is not torch's own."""

def hook_block_exit(function: Callable[..., object]) -> None:
    """record_function.__exit__, which is around every step, tells of steps that raise."""

def unhook_block_exit() -> None:
    """What hook_block_exit did is undone."""

def note_optimizer(optimizer: object) -> None:
    """What is in its param_groups is trained. It is not kept alive."""

def forget_optimizers() -> None:
    """No optimizer is known any more."""
