"""What an API is told when it starts a session while another API holds the open one."""

from __future__ import annotations

from sonde import log
from sonde.request import OPTIONS, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sonde.face import Face
    from sonde.opening import Opening


def say_what_is_ignored(speaker: Face, request: Request, opening: Opening | None) -> None:
    """Warns if ``request`` asks for something that the open session does not do."""
    if opening is None:
        return
    ignored = conflicts(speaker, request, opening)
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


def conflicts(speaker: Face, request: Request, opening: Opening) -> list[str]:
    """What was asked for, is not the default, and differs from what the session was opened with."""
    defaults, opened = Request(speaker, {}), opening.request
    found = [
        speaker.option(option)
        for option in OPTIONS
        if option != "directory"
        and getattr(request, option) not in (getattr(opened, option), getattr(defaults, option))
    ]
    if request.directory != defaults.directory and _output_dir(request) != opening.output_dir:
        found.append(speaker.option("directory"))
    return found


def _output_dir(request: Request) -> str | None:
    try:
        return request.output_dir()
    except (OSError, UnicodeError):  # it would not have been used either
        return None
