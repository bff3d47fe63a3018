"""What the engine and the recorder of snapshots are given when a session is opened."""

from __future__ import annotations

import os

from sonde import _core, environment, face, facts, log, options, program, snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sonde.face import Face
    from sonde.request import Request


class Opening:
    """All that a session is opened with. It is kept, because a forked child may open it again."""

    __slots__ = ("face", "on_batch", "output_dir", "platform", "request", "transport")

    def __init__(self, speaker: Face, request: Request) -> None:
        self.face = speaker
        self.request = request
        self.platform = speaker.platform_context()
        self.output_dir = _output_dir(request)
        # A face may open a connection or a stream here.
        self.transport, self.on_batch = speaker.transport(self.platform, self.spool_dir)

    @property
    def spool_dir(self) -> str | None:
        return None if self.output_dir is None else f"{self.output_dir}/spool"

    def start(self, troubles: Callable[[], list[str]]) -> None:
        """Begins the session in the engine. ``troubles()`` says why hooks may have seen nothing."""
        request = self.request
        ranks = environment.Ranks()
        member = program.Membership()
        _core.session.start(
            {
                "output_dir": self.output_dir,
                "rank": ranks.rank,
                "local_rank": ranks.local_rank or 0,
                "world_size": 1 if ranks.world_size is None else ranks.world_size,
                "on_demand": member.child,
                # The rest of the attributes comes from ``facts`` and ``ending``.
                "attrs": {_core.attrs.PID: os.getpid(), **ranks.attributes()}
                | named_ids(self.face, self.platform)
                | member.attributes()
                | {_core.attrs.SNAPSHOTS: request.snapshots},
                "lines": _line_outlets(request.output),
                "on_batch": self.on_batch,
                "face": self.face.for_engine(),
            }
            | request.for_engine()
        )
        run = self.platform.get("run_id") or member.launch or member.run
        snapshots.start(request, run, troubles)
        facts.start()


def named_ids(speaker: Face, platform: dict[str, str]) -> dict[str, object]:
    """Attributes of the session: the ids that the platform of this API gave the run."""
    return {f"{speaker.name}.{key}": value for key, value in platform.items()}


def _output_dir(request: Request) -> str | None:
    try:
        return request.output_dir()
    except (OSError, UnicodeError) as error:
        log.warn(
            "flush",
            f"nothing is kept on disk: {request.directory!r} cannot be the output directory "
            f"({error}); " + face.current().advise("no-directory"),
        )
        return None


def _line_outlets(
    sinks: tuple[str, ...],
) -> list[tuple[str, str, str | None, Callable[[list[str]], None]]]:
    if all(sink in ("spool", "none") for sink in sinks):
        return []
    from sonde.outlets import LINE_OUTLETS

    split = map(options.split_output, sinks)
    return [
        (name, level, glob, LINE_OUTLETS[name])
        for name, level, glob in split
        if name in LINE_OUTLETS
    ]
