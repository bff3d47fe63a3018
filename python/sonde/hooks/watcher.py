"""Calls back when the program has imported a module, without importing anything itself."""

from __future__ import annotations

import sys

from sonde import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_waiting: dict[str, list[Callable[[], None]]] = {}


def is_imported(name: str) -> bool:
    """True when the module is there and its own code has run to the end."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def watch(name: str, callback: Callable[[], None]) -> None:
    """Calls ``callback`` once, right after the module's code has run."""
    _waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def unwatch(name: str, callback: Callable[[], None]) -> None:
    callbacks = _waiting.get(name, [])
    if callback in callbacks:
        callbacks.remove(callback)
    if not callbacks:
        _waiting.pop(name, None)
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Loader:
    """Wraps the loader of a module, to call back when the module is imported."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loader, attribute)

    def create_module(self, spec: Any) -> Any:
        spec.loader = self._loader
        try:
            return self._loader.create_module(spec)
        finally:
            spec.loader = self

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module shows only its own loader.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _imported(self._name)


class _Finder:
    """First in sys.meta_path while callbacks wait; finds modules through the other finders."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _Loader(spec.loader, name)  # type: ignore[assignment]
            return spec
        return None


_finder = _Finder()


def _imported(name: str) -> None:
    for callback in _waiting.pop(name, []):
        try:
            callback()
        except Exception as error:  # the program's import goes on
            log.swallowed("hooks")
            log.warn(
                "hooks", f"the import of {name} could not be followed: {error}; please report this"
            )
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
