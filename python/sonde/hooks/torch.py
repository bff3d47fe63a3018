"""PyTorch: data_load, forward, backward, optimizer_step, and from them step, epoch, validation.

| what | how |
|---|---|
| forward | the vectorcall of the function object ``nn.Module.__call__``, which stays what it is |
| backward | ``torch.autograd.backward``, which ``Tensor.backward`` calls, and |
| | ``torch.autograd.grad``, replaced by name |
| optimizer step | torch's global optimizer hooks |
| what optimizers own | ``Optimizer.__init__``, replaced by name |
| a skipped step | ``GradScaler.step``, replaced by name |
| fetch | ``__iter__`` of DataLoader, and of every subclass that has its own, replaced by name; |
| | of accelerate's loaders too, which read one batch ahead and are no subclasses |

Options switch off each part: ``modules``, ``backward``, ``optimizers``, ``loaders``. A part that is
off leaves torch as it is.
"""

from __future__ import annotations

import os
import sys
from functools import update_wrapper

from sonde import _core, log, snapshots
from sonde.hooks.watcher import is_imported, unwatch, watch
from sonde.options import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from sonde.hooks import Hook
    from sonde.hooks.patches import Patches

# Each wraps a DataLoader, and only claims to be one by its __class__.
ACCELERATE_LOADERS = ("DataLoaderShard", "DataLoaderDispatcher", "SkipDataLoader")

_explained = False


def install(torch: ModuleType, patches: Patches, hook: Hook) -> None:
    steps = hook.option("epoch_steps", None)
    if is_count(steps):
        _core.loops.set_epoch_steps(steps)
    _core.torch.find_functions()
    patches.on_undo(_core.torch.forget_functions)
    hook.on_uninstall(_core.loops.finish_all)
    if torch.version.cuda is not None and snapshots.wanted():
        from sonde.snapshots.cuda import nvrtc_paths

        _core.device.want_kernels(nvrtc_paths(torch.version.cuda))
        patches.on_undo(lambda: _core.device.want_kernels(None))
    _explain_to_dynamo_in_time(patches)
    for part, put_in_place in PARTS.items():
        if hook.option(part, True):
            put_in_place(torch, patches, hook)


def _hook_modules(torch: ModuleType, patches: Patches, hook: Hook) -> None:
    # Whatever function is there now, even another tool's: a call reaches it first.
    _core.torch.hook_module_call(torch.nn.Module.__call__)
    patches.on_undo(_core.torch.unhook_module_calls)


def _hook_backward(torch: ModuleType, patches: Patches, hook: Hook) -> None:
    for name in ("backward", "grad"):
        patches.replace(
            torch.autograd,
            name,
            lambda original: update_wrapper(_core.torch.time_backward(original), original),
        )


def _hook_optimizers(torch: ModuleType, patches: Patches, hook: Hook) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    patches.on_undo(register_optimizer_step_pre_hook(_core.torch.begin_optimizer).remove)
    patches.on_undo(register_optimizer_step_post_hook(_core.torch.end_optimizer).remove)
    _core.torch.hook_block_exit(torch.autograd.profiler.record_function.__exit__)
    patches.on_undo(_core.torch.unhook_block_exit)

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = _core.loops.steps_taken()
            result = original(self, optimizer, *args, **kwargs)
            if patches.active and _core.loops.steps_taken() == before:
                _core.loops.skip_step(optimizer)
            return result

        return update_wrapper(step, original)

    patches.replace(torch.amp.grad_scaler.GradScaler, "step", counted)
    process = os.getpid()
    patches.on_undo(lambda: _say_skipped(process))

    def known(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            if patches.active:
                _core.torch.note_optimizer(self)

        return update_wrapper(__init__, original)

    patches.replace(torch.optim.Optimizer, "__init__", known)
    patches.on_undo(_core.torch.forget_optimizers)


def _say_skipped(process: int) -> None:
    skipped = _core.loops.steps_skipped()
    if skipped and os.getpid() == process:  # in a forked child the counts are the parent's
        log.warn(
            "hooks.torch",
            f"mixed precision skipped {skipped} of {skipped + _core.loops.steps_taken()} optimizer "
            "steps because their gradients were not finite; a few at the beginning are normal, "
            "while the loss scale is being found, but many mean that training is unstable",
        )


def _explain_to_dynamo_in_time(patches: Patches) -> None:
    if is_imported("torch._dynamo"):
        _explain_to_dynamo()
    else:
        watch("torch._dynamo", _explain_to_dynamo)
        patches.on_undo(lambda: unwatch("torch._dynamo", _explain_to_dynamo))


def _explain_to_dynamo() -> None:
    """Where a whole training step is compiled, Dynamo traces through the optimizer's hooks too.

    A step that became part of a graph is not recorded.
    """
    global _explained
    if _explained:  # for the life of the process
        return
    _explained = True
    try:
        from torch._dynamo import substitute_in_graph
    except ImportError:  # before torch 2.5: a step that is compiled as a whole breaks at our hooks
        return

    def nothing(optimizer: object, args: object, kwargs: object) -> None:
        return None

    def unhooked(function: object) -> bool:
        return False

    def iterated(original: Callable[[Any], Any], loader: Any, length: object) -> Any:
        return original(loader)

    for function, traced in (
        (_core.torch.begin_optimizer, nothing),
        (_core.torch.end_optimizer, nothing),
        (_core.torch.hook_module_call, unhooked),
        (_core.torch.iterate_loader, iterated),
    ):
        substitute_in_graph(function, skip_signature_check=True)(traced)
    # An epoch may end inside a compiled function. The functions of a snapshot are not part of it.
    from torch._dynamo import trace_rules

    trace_rules.add("sonde.snapshots")


def _hook_loaders(torch: ModuleType, patches: Patches, hook: Hook) -> None:
    from torch.utils.data import DataLoader

    with_modules = hook.option("modules", True)

    def timed(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
            # Not imported here: at the end of the process that may no longer be possible.
            if not patches.active:
                return original(self)
            if with_modules:
                _see_module_call(torch)
            return _core.torch.iterate_loader(original, self, _length)

        return update_wrapper(__iter__, original)

    def visit(loader: type) -> None:
        if "__iter__" in vars(loader):
            patches.replace(loader, "__iter__", timed)
        subclass: type
        for subclass in loader.__subclasses__():
            visit(subclass)

    visit(DataLoader)

    has_own = "__init_subclass__" in vars(DataLoader)

    def announced(original: Any) -> Any:
        def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:  # noqa: N807
            if has_own:
                original.__get__(None, cls)(**kwargs)
            else:
                super(DataLoader, cls).__init_subclass__(**kwargs)
            if patches.active and "__iter__" in vars(cls):
                patches.replace(cls, "__iter__", timed)

        return classmethod(__init_subclass__)

    patches.replace(DataLoader, "__init_subclass__", announced)
    _hook_accelerate(DataLoader, timed, patches)


PARTS = {
    "modules": _hook_modules,
    "backward": _hook_backward,
    "optimizers": _hook_optimizers,
    "loaders": _hook_loaders,
}


def _length(loader: Any) -> int:
    """The number of batches. 0: not known, or the loader would remember that it was asked."""
    from torch.utils.data import IterableDataset

    try:
        if isinstance(getattr(loader, "dataset", None), IterableDataset):
            return 0
        return max(0, len(loader))
    except Exception:  # raised by code of the program
        return 0


def _hook_accelerate(loader: type, timed: Callable[..., Any], patches: Patches) -> None:
    """Hooks accelerate's loader. The program waits for that; the loader inside is a batch ahead."""
    name = "accelerate.data_loader"

    def put_in_place() -> None:
        for own in ACCELERATE_LOADERS:
            adapter = getattr(sys.modules[name], own, None)
            # In older versions it is a subclass, and hooked as such.
            if isinstance(adapter, type) and not issubclass(adapter, loader):
                patches.replace(adapter, "__iter__", timed)

    if is_imported(name):
        put_in_place()
    else:
        watch(name, put_in_place)
        patches.on_undo(lambda: unwatch(name, put_in_place))


def _see_module_call(torch: ModuleType) -> None:
    """Hooks the function that calls reach now: another tool may have replaced ours since."""
    call = torch.nn.Module.__call__
    if type(call) is _FUNCTION:
        _core.torch.hook_module_call(call)


_FUNCTION = type(_see_module_call)
