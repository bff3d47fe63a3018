"""Framework hooks, which are put in place when the program imports the framework.

A framework that is installed but never imported stays unimported: its hook waits. The module of
each framework has ``install(module, patches, hook)``, which replaces functions through ``patches``
and may raise: then one warning says so, the hook is off, and training goes on.
"""

from __future__ import annotations

import sys

from sonde import face, facts, log
from sonde.hooks.patches import Patches
from sonde.hooks.watcher import is_imported, unwatch, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Name of a hook -> packages, one of which must be installed; modules whose import installs the
# hook. Hooks are installed in this order: if several could open epochs and steps, the first one
# does.
KNOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "transformers": (("transformers",), ("transformers.trainer",)),
    "tensorflow": (("tensorflow", "keras"), ("keras", "tensorflow")),
    "jax": (("jax",), ("jax",)),
    "lightning": (
        ("lightning", "pytorch_lightning"),
        ("lightning.pytorch", "pytorch_lightning"),
    ),
    "torch": (("torch",), ("torch",)),
}
ALIASES = {"keras": "tensorflow", "pytorch_lightning": "lightning", "pytorch": "torch"}

# Packages that an earlier session found, and the sys.path it looked in.
_found: set[str] = set()
_looked_in: list[str] = []


class Hook:
    """One framework's hook: waiting for the import, in place, or taken away."""

    __slots__ = ("__dict__", "_ends", "_options", "_patches", "_watched", "name", "problem")

    def __init__(self, name: str, options: Mapping[str, Mapping[str, object]]) -> None:
        self.name = name
        self._options = options
        self._patches = Patches()
        self.problem = ""  # why it is off
        self._watched: list[tuple[str, Callable[[], None]]] = []
        self._ends: list[Callable[[], None]] = []
        for module in KNOWN[name][1]:
            self._arm(module)

    def __repr__(self) -> str:
        return f"<hook {self.name}{'' if self._patches else ', waiting for its import'}>"

    @property
    def active(self) -> bool:
        """True once the framework was imported and the hook is in place."""
        return bool(self._patches)

    def option(self, name: str, default: object) -> object:
        """An option of this hook, as the session was given it (``hook_options``)."""
        return self._options.get(self.name, {}).get(name, default)

    def expose(self, **names: object) -> None:
        """Attributes of the handle that programs may look for."""
        self.__dict__.update(names)

    def on_uninstall(self, end: Callable[[], None]) -> None:
        """``end`` is called when the program uninstalls the hook. It ends what is open."""
        self._ends.append(end)

    def uninstall(self) -> None:
        """Puts the originals back and ends what is open. A second call does nothing."""
        if self._patches:
            for end in self._ends:
                try:
                    end()
                except Exception as error:
                    log.swallowed(f"hooks.{self.name}")
                    log.warn(
                        f"hooks.{self.name}",
                        f"the {self.name} hook could not close its spans ({error}): they stay open "
                        "until the session ends; please report this",
                    )
        self._ends.clear()
        self.take_away()

    def take_away(self) -> None:
        """Puts the originals back; what is open is left to the end of the session."""
        for module, callback in self._watched:
            unwatch(module, callback)
        self._watched.clear()
        for problem in self._patches.undo():
            _say_not_removed(self.name, problem)

    def _arm(self, module: str) -> None:
        def put_in_place() -> None:
            self._install(module)

        if is_imported(module):
            put_in_place()
        else:
            self._watched.append((module, put_in_place))
            watch(module, put_in_place)

    def _install(self, module: str) -> None:
        from importlib import import_module

        try:
            # By its full name, because this package has modules with the names of frameworks.
            import_module(f"sonde.hooks.{self.name}").install(
                sys.modules[module], self._patches, self
            )
            if self.name == "torch":
                facts.watch_precision(sys.modules[module], self._patches)
        except Exception as error:
            log.swallowed(f"hooks.{self.name}")
            self._patches.undo()
            self.problem = f"{type(error).__name__}: {error}"
            log.warn(
                f"hooks.{self.name}",
                f"the {self.name} hook is off because it does not understand this version "
                f"({type(error).__name__}: {error}); your own scopes still work, "
                "but please report this",
            )


def detect() -> list[str]:
    """The installed frameworks that have a hook. Nothing is imported for that."""
    return [name for name, (packages, _) in KNOWN.items() if any(map(_is_installed, packages))]


def install(names: Iterable[str], options: Mapping[str, Mapping[str, object]]) -> list[Hook]:
    """The hooks of these frameworks, in the order of KNOWN. Unknown names warn. Never raises."""
    wanted = []
    for given in names:
        name = ALIASES.get(given, given)
        if name in KNOWN:
            wanted.append(name)
        else:
            log.warn(
                "hooks",
                f"no hook for framework {given!r}; known are {', '.join(sorted(KNOWN))} "
                "(scikit-learn: wrap the estimator with "
                f"{face.current().call('wrap', 'wrap')})",
            )
    return [Hook(name, options) for name in KNOWN if name in wanted]


def uninstall(hooks: Iterable[Hook]) -> None:
    """Takes the hooks away in reverse order. If one fails, the others are still taken away."""
    for hook in reversed(list(hooks)):
        try:
            hook.take_away()
        except Exception as error:
            _say_not_removed(hook.name, error)


def _say_not_removed(name: str, problem: object) -> None:
    log.swallowed(f"hooks.{name}")
    log.warn(
        f"hooks.{name}",
        f"the {name} hook could not be removed cleanly: {problem}; nothing needs to be done as "
        "long as training goes on",
    )


def troubles(installed: Iterable[Hook]) -> list[str]:
    """What keeps hooks from seeing the program: those that failed, and those that were left out."""
    placed = {hook.name: hook for hook in installed}
    found = [
        f"the {name} hook is off ({hook.problem})" for name, hook in placed.items() if hook.problem
    ]
    who = face.current().call("frameworks", "the session")
    for name, (_, modules) in KNOWN.items():
        if name not in placed and any(map(is_imported, modules)):
            found.append(f"{who} leaves out {name}, which the program uses")
    return found


def _is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    if _looked_in != sys.path:
        _looked_in[:] = sys.path
        _found.clear()
    if package in _found:
        return True
    from importlib.machinery import PathFinder

    try:
        there = PathFinder.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
    if there:
        _found.add(package)
    return there
