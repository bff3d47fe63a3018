"""The models that are captured, and what their tensors are called.

Watched models are those that the program has named. A led model is one whose trainer runs on this
thread. If there are neither, the models that are trained are captured (``trained.py``).
"""

from __future__ import annotations

import sys
from _weakref import ref

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reference = Callable[[], Any]


class Entry:
    """A weak reference to a model, and its namespace."""

    __slots__ = ("captured", "model", "name")

    def __init__(self, model: object, name: str) -> None:
        self.model = refer(model)
        self.name = name
        self.captured = False


class Models:
    """The models of one session."""

    __slots__ = (
        "_ended",
        "_forever",
        "_found",
        "_led",
        "_left_out",
        "_names",
        "_watched",
        "several",
    )

    def __init__(self) -> None:
        self._watched: list[Entry] = []
        # By _core.snapshots.stack_number(), because numbers of threads are used again. The
        # innermost trainer comes last.
        self._led: dict[int, list[Entry]] = {}
        # Also by stack: models whose trainers have ended inside an epoch of the program.
        self._ended: dict[int, list[Entry]] = {}
        self._found: list[Entry] = []  # models that were found to be trained
        self._names: dict[str, Reference] = {}  # namespace -> its model
        self._forever: set[str] = set()  # namespaces that no other model gets
        self._left_out: list[Reference] = []
        self.several = False  # from then on the names of tensors have prefixes

    def watch(self, model: object, name: str | None) -> None:
        _core.snapshots.note_model_exists()
        for entry in self._watched:
            if entry.model() is model:
                if name is not None and name != entry.name:
                    entry.name = self._unique(model, name)
                return
        self._watched = [entry for entry in self._watched if entry.model() is not None]
        self._watched.append(Entry(model, self._unique(model, name or type(model).__name__)))

    def lead(self, model: object) -> None:
        """A trainer of this model begins on this thread."""
        _core.snapshots.note_model_exists()
        name = next((name for name, other in self._names.items() if other() is model), None)
        entry = Entry(model, name or self._unique(model, type(model).__name__))
        self._led.setdefault(_core.snapshots.stack_number(), []).append(entry)

    def release(self, model: object) -> None:
        """The trainer of this model has ended, on whichever thread."""
        for stack, entries in list(self._led.items()):
            for entry in reversed(entries):
                if entry.model() is model or entry.model() is None:
                    entries.remove(entry)
                    if not entry.captured:
                        self._ended.setdefault(stack, []).append(entry)
                    break
            if not entries:
                del self._led[stack]

    def leave_out(self, model: object) -> None:
        """From now on this model is not captured."""
        self._left_out.append(refer(model))

    def end_epoch(self, stack: int) -> None:
        """The models of this stack have been captured: its epoch has ended."""
        for entry in self._led.get(stack, [])[-1:]:
            entry.captured = True
        self._ended.pop(stack, None)

    def told(self, stack: int) -> list[tuple[str, Any]] | None:
        """The watched and led models, each with the prefix of its tensors' names.

        The prefix is empty where there is only one model. None: there are no such models.
        """
        if not (self._watched or self._led or self._ended):
            return None
        entries = list(self._watched)
        led = self._led.get(stack, [])[-1:] or self._ended.get(stack, [])
        for entry in led:
            if all(entry.model() is not other.model() for other in entries):
                entries.append(entry)
        found = [(entry.name, model) for entry in entries if (model := entry.model()) is not None]
        self.several = self.several or len(found) > 1
        return self._prefixed(found) if found else None

    def named(self, models: list[Any]) -> list[tuple[str, Any]]:
        """The same for models that were found. A model keeps its name for as long as it lives."""
        found = [(self._entry(model).name, model) for model in models]
        if not self.several:
            self._found = [entry for entry in self._found if entry.model() is not None]
            self.several = len(models) > 1 or self._has_others(models)
        return self._prefixed(found)

    def space(self, name: str, owner: object) -> str:
        """A namespace for ``owner`` while it lives: this name, with a number if it is taken."""
        for known, other in self._names.items():
            if other() is owner and known.startswith(name):
                return known
        return self._unique(owner, name, forever=False)

    def has_left_out(self) -> bool:
        return bool(self._left_out)

    def is_left_out(self, model: object) -> bool:
        return any(model is other() for other in self._left_out)

    def _prefixed(self, found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        if self._left_out:
            found = [(name, model) for name, model in found if not self.is_left_out(model)]
        return [(f"{name}." if self.several else "", model) for name, model in found]

    def _entry(self, model: Any) -> Entry:
        for entry in self._found:
            if entry.model() is model:
                return entry
        entry = Entry(model, self._unique(model, type(model).__name__, forever=False))
        self._found.append(entry)
        return entry

    def _has_others(self, models: list[Any]) -> bool:
        """Was another model found before that is alive and no part of these?"""
        if len(self._found) <= len(models):
            return False
        parts = {id(part) for model in models for part in getattr(model, "modules", tuple)()}
        return bool(models) and any(id(entry.model()) not in parts for entry in self._found)

    def _unique(self, model: object, name: str, forever: bool = True) -> str:
        """``forever``: no other model gets the name when this one is gone."""
        unique, number = name, 0
        while (other := self._names.get(unique)) is not None:
            if other() is None and unique not in self._forever:
                break
            number += 1
            unique = f"{name}_{number}"
        self._names[unique] = refer(model)
        if forever:
            self._forever.add(unique)
        return unique


def refer(model: object) -> Reference:
    try:
        return ref(model)
    except TypeError:  # it takes no weak references: it is kept until the session ends
        return lambda: model


def unwrapped(model: Any) -> Any:
    """The model inside the wrappers of torch.compile and data parallelism, which rename tensors."""
    while True:
        kind = type(model)
        if "_orig_mod" in (getattr(model, "_modules", None) or ()):
            model = model._modules["_orig_mod"]
        elif kind.__module__.startswith("torch.nn.parallel.") and "module" in model._modules:
            model = model._modules["module"]
        else:
            return model


def tensors_of(model: Any) -> Any:
    """The module itself where the extension may walk it, else pairs of name and tensor."""
    if _is_keras(model):
        return [(name, _value(variable)) for name, variable in _keras_names(model.weights)]
    named = getattr(model, "named_parameters", None)
    if named is not None:
        module = _base_module(model)
        if module is not None and (
            type(model).named_parameters is module.named_parameters
            or type(model).__name__ == "FullyShardedDataParallel"
        ):
            return model
        return list(named())
    variables = getattr(model, "weights", None)
    if variables is None:
        variables = getattr(model, "variables", None)  # a tf.Module
    if variables is None or callable(variables):
        return []
    return _unique_names(
        (getattr(v, "path", None) or getattr(v, "name", None) or f"weight_{i}", _value(v))
        for i, v in enumerate(variables)
    )


def _is_keras(model: Any) -> bool:
    if "keras" not in sys.modules and "tf_keras" not in sys.modules:
        return False
    return any(base.__module__.startswith(("keras.", "tf_keras.")) for base in type(model).__mro__)


def _keras_names(variables: Any) -> list[tuple[str, Any]]:
    return _unique_names((getattr(v, "path", None) or v.name, v) for v in variables)


def _value(variable: Any) -> Any:
    value = getattr(variable, "value", variable)
    return variable if callable(value) else value


def _unique_names(pairs: Any) -> list[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        unique, number = name, 0
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found[unique] = value
    return list(found.items())


def _base_module(model: Any) -> Any:
    for base in type(model).__mro__:
        if base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module":
            return base
    return None


def has_offloaded(model: Any) -> bool:
    """accelerate keeps weights elsewhere while their layer is idle, and leaves meta tensors."""
    modules = getattr(model, "modules", None)
    if not callable(modules):
        return False
    for module in modules():
        hook = getattr(module, "_hf_hook", None)
        # Several hooks on one module are one hook with a list.
        if any(getattr(each, "offload", False) for each in getattr(hook, "hooks", (hook,))):
            return True
    return False
