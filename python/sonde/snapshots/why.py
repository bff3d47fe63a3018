"""Attributes of the session that say why it has no snapshots, for readers outside the process."""

from __future__ import annotations

from sonde import _core

LONGEST = 300  # characters of a sentence, so that it fits into the session


def tell(reason: str, hook_troubles: list[str]) -> str:
    """Writes the reason into the session, with what the hooks have to do with it; returns it."""
    sentence = "; ".join([reason, *hook_troubles])
    sentence = " ".join(sentence.replace('"', "'").split())
    if len(sentence) > LONGEST:
        sentence = sentence[:LONGEST] + "..."
    _core.session.annotate({_core.attrs.SNAPSHOTS_REASON: sentence})
    return sentence


def count(records: int) -> None:
    """Writes into the session how many records of snapshots it has."""
    _core.session.annotate({_core.attrs.SNAPSHOT_RECORDS: records})
