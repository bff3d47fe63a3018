"""Why a session has no snapshots, in its own attributes: for whoever reads it from outside."""

from __future__ import annotations

from sonde import _core, face
from sonde.hooks.watcher import is_imported

LONGEST = 300  # of a sentence, so that it fits into the session


def tell(reason: str) -> str:
    """Writes the reason into the session, with what the hooks have to do with it; returns it."""
    sentence = "; ".join([reason, *_hook_troubles()])
    sentence = " ".join(sentence.replace('"', "'").split())
    if len(sentence) > LONGEST:
        sentence = sentence[:LONGEST] + "..."
    _core.session.annotate({"snapshots_reason": sentence})
    return sentence


def count(records: int) -> None:
    """Likewise how many there are."""
    _core.session.annotate({"snapshot_records": records})


def _hook_troubles() -> list[str]:
    from sonde import hooks, session

    left_out = face.current().advise("frameworks", "the session leaves out")
    profiler = session.current()
    placed = {} if profiler is None else {hook.name: hook for hook in profiler._hooks}
    found = [
        f"the {name} hook is off ({hook.problem})" for name, hook in placed.items() if hook.problem
    ]
    for name, (_, modules) in hooks.KNOWN.items():
        if name not in placed and any(map(is_imported, modules)):
            found.append(f"{left_out} {name}, which the program uses")
    return found
