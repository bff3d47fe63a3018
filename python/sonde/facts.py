"""What the session says of the program: its frameworks, device and precision.

Little of that is known when a session begins: torch may be imported later, and a model be moved to
the GPU later still. So it is looked up again wherever something may have changed: at the first use
of a framework, at the first autocast, at every flush, when the trace is read, and at the end. What
is known is in the journal at once, for the autopsy of a run that is killed.
"""

from __future__ import annotations

import sys

from sonde import _core, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from sonde.hooks.patches import Patches

# A framework that others are built on comes first.
ORDER = ("torch", "tensorflow", "jax", "keras", "lightning", "transformers")
# After that many calls of an autocast or a scaler that is switched off, the watching ends.
PATIENCE = 1000

_current: _Facts | None = None


class _Facts:
    __slots__ = ("_gpus", "_mixed", "_told", "_used")

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._mixed = False
        self._gpus: tuple[str, int] | None = None  # None: not asked yet
        self._told: dict[str, object] = {}

    def use(self, framework: str) -> None:
        if framework in ORDER and framework not in self._used:
            self._used.add(framework)
            self.tell(ask=True)

    def mix(self) -> None:
        if not self._mixed:
            self._mixed = True
            self.tell(ask=False)

    def tell(self, *, ask: bool) -> None:
        """Writes what has changed into the session. Without ``ask`` no slow question is asked."""
        device, count = self._device(ask)
        self._mixed = self._mixed or _mixes_now()
        names = [name for name in ORDER if name in self._used]
        facts: dict[str, object] = {
            "framework": ",".join(names),
            "device": device,
            "cuda_count": count,
            "mixed_precision": self._mixed,
        }
        if facts != self._told:
            self._told = facts
            _core.session.annotate(facts)

    def _device(self, ask: bool) -> tuple[str, int]:
        if self._gpus is None:
            found = _torch_gpus(ask)
            if not (found and found[1]):
                found = _jax_devices() or _tensorflow_gpus(self._used) or found
            if found is None:
                return "cpu", 0
            # A framework that sees no GPU may not be the one that trains.
            if found != ("cpu", 0):
                self._gpus = found
            return found
        return self._gpus


def start() -> None:
    """A session has begun."""
    global _current
    _current = _Facts()
    _current.tell(ask=False)
    _core.torch.on_first_use(_torch_is_used)


def refresh() -> None:
    """Before the session is read or written: looks up what may have changed."""
    if _current is not None:
        _current.tell(ask=True)


def stop() -> None:
    """The session is about to end: looks everything up a last time."""
    global _current
    refresh()
    _current = None
    _core.torch.on_first_use(None)


def forget() -> None:
    """In a forked child: the facts are about the parent's session."""
    global _current
    _current = None
    _core.torch.on_first_use(None)


def use(framework: str) -> None:
    """The program uses this framework: its hook has something to record."""
    if _current is not None:
        _current.use(framework)


def _torch_is_used() -> None:
    use("torch")


# -- precision --


def watch_precision(torch: ModuleType, patches: Patches) -> None:
    """Notices the first autocast that is switched on, and the first GradScaler.

    The replaced functions put the originals back once they have seen one.
    """

    def autocast_is_on(*args: object) -> bool:
        return _autocast_enabled(torch)

    def scaler_is_on(scaler: Any, *args: object) -> bool:
        return bool(scaler.is_enabled())

    # Not the methods of autocast: TorchScript compiles those.
    _until_seen(torch, "autocast_increment_nesting", autocast_is_on, patches)
    _until_seen(torch.amp.grad_scaler.GradScaler, "scale", scaler_is_on, patches)


def _until_seen(owner: Any, name: str, is_it: Callable[..., bool], patches: Patches) -> None:
    left = PATIENCE

    def make(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            try:
                found = is_it(*args)
            except Exception:  # a version that we do not know
                left, found = 0, False
            if found:
                left = 0
                _mix()
            if left <= 0 and vars(owner).get(name) is call:
                setattr(owner, name, original)
            return original(*args, **kwargs)

        return call

    if hasattr(owner, name):
        patches.replace(owner, name, make)


def _mix() -> None:
    try:
        if _current is not None:
            _current.mix()
    except Exception:
        log.swallowed("facts")


def _mixes_now() -> bool:
    torch = sys.modules.get("torch")
    keras = sys.modules.get("keras")
    try:
        if torch is not None and _autocast_enabled(torch):
            return True
        if keras is not None:
            return str(keras.config.dtype_policy().name).startswith("mixed")
    except Exception:  # half imported, or a version that we do not know
        pass
    return False


def _autocast_enabled(torch: ModuleType) -> bool:
    try:
        return any(torch.is_autocast_enabled(device) for device in ("cuda", "cpu"))
    except TypeError:  # before torch 2.4 it knew only CUDA
        return bool(torch.is_autocast_enabled()) or bool(torch.is_autocast_cpu_enabled())


# -- devices --
#
# A profiler must not import a framework, nor start a CUDA context that the program did not start (a
# forked child could then not use the GPU). None: the framework is not there, or not initialized.


def _torch_gpus(ask: bool) -> tuple[str, int] | None:
    torch = sys.modules.get("torch")
    try:
        if torch is None or (torch.version.cuda is None and torch.version.hip is None):
            return None
        if torch.cuda.is_initialized():
            count = int(torch._C._cuda_getDeviceCount())
        elif ask:
            count = int(torch.cuda.device_count())  # asks NVML, which takes milliseconds
        else:
            return None
    except Exception:  # half imported, or a version that we do not know
        return None
    return ("cuda" if count else "cpu", count)


def _jax_devices() -> tuple[str, int] | None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    try:
        if bridge is None or not bridge.backends_are_initialized():
            return None
        devices = sys.modules["jax"].local_devices()
    except Exception:
        return None
    if any(device.platform in ("gpu", "cuda", "rocm") for device in devices):
        return "cuda", len(devices)
    return None if devices[0].platform == "cpu" else (str(devices[0].platform), 0)


def _tensorflow_gpus(used: set[str]) -> tuple[str, int] | None:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or "tensorflow" not in used:
        return None
    try:
        count = len(tensorflow.config.list_physical_devices("GPU"))
    except Exception:
        return None
    return ("cuda", count) if count else None
