"""Statistics of what is trained: when to take them, of what, and taking them."""

from collections.abc import Callable
from typing import Any

def set_listeners(
    on_epoch: Callable[[int, int | None, int | None, int, dict[int, int]], None] | None,
    on_gradients: Callable[[Any, int, int, int | None, int, bool], None] | None,
    on_trained: Callable[[Any], None] | None,
    on_gone: Callable[[int, Any], None] | None,
) -> None:
    """Sets the functions that are called when something is to be captured. None for all: stop.

    ========================================================= ======================================
    on_epoch(sequence, index, step, stack, steps)             an epoch has ended
    on_gradients(optimizer, number, sequence, index, stack,   the gradients of this optimizer are to
    last)                                                     be measured
    on_trained(module)                                        the module has its first gradients
    on_gone(id of the optimizer, param_groups)                an optimizer that was given to
                                                              ``expect_farewell`` has died
    ========================================================= ======================================

    ``sequence`` and ``index`` are those of the epoch's span, ``stack`` is its ``stack_number()``.
    ``steps`` says how many steps each optimizer took in the epoch, by ``id()``; ``number`` is the
    number of the optimizer's step; ``last``: it is likely to be the last of the epoch.
    """

def end_open_epochs() -> None:
    """Tells the end of every epoch that is still open, on all threads."""

def measure_again() -> None:
    """The gradients of the epoch were dropped: the next step of each optimizer is measured."""

def current_epoch() -> tuple[int, int | None] | None:
    """Sequence and index of the epoch that is open on this stack, or None."""

def stack_number() -> int:
    """A number for the running thread or task, never used again. 0: it is not recorded."""

def note_model_exists() -> None:
    """There is a model to take snapshots of."""

def seen_models() -> list[tuple[Any, bool, bool]]:
    """The modules that were called and are alive.

    Each with: has it run in training mode, has it had a gradient?
    """

def seen_optimizers() -> list[Any]:
    """The optimizers that are known and alive."""

def seen_version() -> int:
    """A number that changes whenever a model or an optimizer is added."""

def expect_farewell(optimizer: Any) -> bool:
    """Calls on_gone when this optimizer dies. False: that is not possible."""

class Captured:
    """Statistics of tensors that wait for their epoch."""

    def __len__(self) -> int: ...
    @property
    def names(self) -> list[str]:
        """Names of the parameters; for gradients the same, without ``.grad``."""

    def zeros(self) -> list[str]:
        """The names of tensors whose values are all zero, as far as is known yet."""

def parameter_ids(source: Any) -> list[tuple[str, int]]:
    """Name and id() of each parameter of a module, or of pairs of a name and a tensor."""

def capture(
    models: list[tuple[str, Any]],
    gradients: bool,
    parameters: list[Any] | None,
    skip: set[str],
    whole: bool,
    threads: int,
    resolve: Callable[[list[tuple[Any, bool]]], list[Any]],
    fallback: Callable[[list[Any]], list[Any]],
) -> Captured:
    """Statistics of the parameters of models, or of the gradients of some of them.

    ``whole``: copies the tensors too. ``resolve`` gets the tensors that are not plain memory, each
    with whether it is a part of a tensor, and says what to measure instead. ``fallback`` measures
    tensors on devices that the extension cannot read.
    """

def submit(
    captured: list[tuple[Captured, dict[str, Any]]],
    sequence: int,
    epoch: int | None,
    step: int | None,
    mode: str,
    more: bool,
) -> None:
    """Hands captures of one kind, each with its attributes, to the session as part of an epoch.

    more: the captures of the other kind follow at once.
    """
