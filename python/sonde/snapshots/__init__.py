"""Snapshots: what every weight and gradient looks like at the end of every epoch.

``_core`` says when (an epoch has ended, an optimizer is about to take the last step of one), reads
and measures; here is decided which models, and what to do with tensors that are not plain memory.
"""

from __future__ import annotations

from sonde import _core, log
from sonde.options import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sonde.snapshots.recorder import Recorder

_recorder: Recorder | None = None
_early: list[tuple[Callable[[], Any], str | None]] = []  # weakly, what was watched before profile()


def watch(model: object, name: str | None = None) -> None:
    """Capture the weights and gradients of this model at the end of every epoch.

    Keras, transformers and Lightning tell their model by themselves, and in a plain loop those are
    found that an optimizer trains. With several models each tensor's name begins with ``name``, or
    the name of the model's class. The model is not kept alive. Without a session it is
    remembered for the next; never raises.
    """
    from sonde import session

    if model is None or isinstance(model, type) or not isinstance(name, str | None):
        given = model if isinstance(model, type) else type(model)
        log.warn(
            "profiler",
            f"watch({given.__name__}, name: {type(name).__name__}): a model, not its class, and a "
            "str for its name are needed",
        )
        return
    if _recorder is not None:
        _recorder.watch(model, name)
    elif session.current() is None:
        _watch_early(model, name)


def start(mode: str, sample_rate: float, options: object, run: str) -> None:
    """A session begins. ``run``: what its processes have in common, and other runs have not."""
    global _recorder
    early, _early[:] = list(_early), []
    if mode == "off":
        return
    from sonde.snapshots.recorder import Recorder

    _recorder = Recorder(mode, sample_rate, _threads(options), run)
    for reference, name in early:
        if (model := reference()) is not None:
            _recorder.watch(model, name)
    _core.snapshots.watch(
        _recorder.epoch_ended,
        _recorder.gradients_are_final,
        _recorder.model_is_trained,
        _recorder.optimizer_gone,
    )


def finish() -> None:
    """The session ends: epochs that are open are captured, then nothing is held any more."""
    global _recorder
    if _recorder is None:
        return
    _recorder.finish()
    _core.snapshots.watch(None, None, None, None)
    _recorder = None


def forget() -> None:
    """After a fork."""
    global _recorder
    _early.clear()
    if _recorder is not None:
        _recorder = None
        _core.snapshots.watch(None, None, None, None)


def lead(model: object) -> None:
    """For hooks: a trainer of this model begins on this thread."""
    if _recorder is not None:
        _recorder.models.lead(model)


def release(model: object) -> None:
    """For hooks: it has ended."""
    if _recorder is not None:
        _recorder.models.release(model)


def reason() -> str | None:
    """Why the session has no snapshots so far; None: it has, or none are wanted."""
    return None if _recorder is None else _recorder.reason()


def wanted() -> bool:
    return _recorder is not None


def _watch_early(model: object, name: str | None) -> None:
    from sonde.snapshots.models import refer

    held = [(reference, reference(), old) for reference, old in _early]
    _early[:] = [(ref, old) for ref, it, old in held if it is not None and it is not model]
    _early.append((refer(model), name))


def _threads(options: object) -> int:
    """``profile(config={"snapshots": {"threads": N}})``."""
    import os

    usual = min(2, os.cpu_count() or 1)
    given = options.get("threads") if isinstance(options, dict) else None
    if not is_count(given):  # said by profile(), where it is something else
        return usual
    return min(given, 256)
