"""Snapshots: what every weight and gradient looks like at the end of every epoch.

``_core`` says when (an epoch has ended, an optimizer is about to take the last step of one), reads
and measures. This package decides which models, and what to do with tensors that are not plain
memory.
"""

from __future__ import annotations

from sonde import _core, log
from sonde.options import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sonde.face import Face
    from sonde.request import Request
    from sonde.snapshots.recorder import Recorder

_recorder: Recorder | None = None
# Models that were named before a session began, by weak references.
_early: list[tuple[Callable[[], Any], str | None]] = []


def watch(speaker: Face, model: object, name: str | None, *, early: bool) -> None:
    """A model that the program names. ``early``: there is no session yet."""
    if (refusal := _refusal(f"{speaker.call('watch', 'watch')}()", model, name)) is not None:
        log.warn("profiler", refusal, speaker)
    elif _recorder is not None:
        _recorder.models.watch(model, name)
    elif early:
        _watch_early(model, name)


def start(request: Request, run: str, hook_troubles: Callable[[], list[str]]) -> None:
    """A session begins.

    ``run`` is the same in all its processes, and different in other runs. ``hook_troubles`` says
    what the hooks have to do with it when there are no snapshots.
    """
    global _recorder
    early, _early[:] = list(_early), []
    if request.snapshots == "off":
        return
    from sonde.snapshots.recorder import Recorder

    threads = _threads(request.hook_options.get("snapshots", {}))
    _recorder = Recorder(request.snapshots, request.sample_rate, threads, run, hook_troubles)
    for reference, name in early:
        if (model := reference()) is not None:
            _recorder.models.watch(model, name)
    _core.snapshots.set_listeners(
        _recorder.epoch_ended,
        _recorder.gradients_are_final,
        _recorder.model_is_trained,
        _recorder.optimizer_gone,
    )


def finish() -> None:
    """The session ends: captures the epochs that are open, then lets go of everything."""
    global _recorder
    if _recorder is None:
        return
    _recorder.finish()
    _core.snapshots.set_listeners(None, None, None, None)
    _recorder = None


def forget() -> None:
    """In a forked child: the recorder is the parent's."""
    global _recorder
    _early.clear()
    if _recorder is not None:
        _recorder = None
        _core.snapshots.set_listeners(None, None, None, None)


def lead(model: object) -> None:
    """For hooks: a trainer of this model begins on this thread."""
    if _recorder is not None:
        _recorder.models.lead(model)


def release(model: object) -> None:
    """For hooks: the trainer of this model has ended."""
    if _recorder is not None:
        _recorder.models.release(model)


def reason() -> str | None:
    """Why the session has no snapshots so far; None if it has some, or if none are wanted."""
    return None if _recorder is None else _recorder.reason()


def wanted() -> bool:
    return _recorder is not None


def _watch_early(model: object, name: str | None) -> None:
    from sonde.snapshots.models import refer

    held = [(reference, reference(), old) for reference, old in _early]
    _early[:] = [(ref, old) for ref, it, old in held if it is not None and it is not model]
    _early.append((refer(model), name))


def _refusal(call: str, model: object, name: object) -> str | None:
    """Why a model cannot be captured, and what to pass instead; None if it can."""
    if isinstance(model, type):
        return f"{call} got the class {model.__name__}; pass a model, which is an instance of it"
    if not any(hasattr(model, each) for each in ("named_parameters", "weights", "variables")):
        return (
            f"{call} cannot capture an object of type {type(model).__name__}, which has neither "
            "named_parameters() nor weights; pass the model itself"
        )
    if not isinstance(name, str | None):
        return f"the name that {call} gives a model must be a str, not {type(name).__name__}"
    return None


def _threads(options: Mapping[str, object]) -> int:
    """The option ``threads``, or the usual number."""
    import os

    usual = min(2, os.cpu_count() or 1)
    given = options.get("threads")
    return min(given, 256) if is_count(given) else usual
