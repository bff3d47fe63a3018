"""What an API hears that starts a session while another API holds the open one."""

from __future__ import annotations

from sonde import log
from sonde.request import DEFAULTS, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sonde.face import Face
    from sonde.opening import Opening


def say_what_is_ignored(speaker: Face, request: Request, opening: Opening | None) -> None:
    """Warns if ``request`` asks for something that the open session does not do."""
    if opening is None:
        return
    ignored = conflicts(speaker, request, opening.request)
    if (stream := speaker.stream(speaker.platform_context())) is not None:
        ignored.append(stream)
    if ignored:
        verb = "has" if len(ignored) == 1 else "have"
        log.warn(
            "profiler",
            f"this call has joined the session that {opening.face.name} began, which keeps its own "
            f"options and writes to {opening.output_dir or 'memory'}: {', '.join(ignored)} {verb} "
            f"no effect; {speaker.advise('joined')}",
            speaker,
        )


def conflicts(speaker: Face, request: Request, opened: Request) -> list[str]:
    """What was asked for, is not the default, and differs from what the session was opened with."""
    defaults = Request(speaker, {})
    return [
        speaker.option(option)
        for option in [*DEFAULTS, "directory"]
        if option != "flags"
        and request.value(option) not in (opened.value(option), defaults.value(option))
    ]
