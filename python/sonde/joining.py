"""What an API hears that starts a session while another API holds the open one."""

from __future__ import annotations

from sonde import log
from sonde.request import DEFAULTS, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sonde.face import Face

    Opening = tuple[Request, str | None, Callable[[str], None] | None]


def say_what_is_ignored(
    speaker: Face, request: Request, opening: Opening | None, holder: str
) -> None:
    """Warns if ``request`` asks for something that the session of ``holder`` does not do."""
    if opening is None:
        return
    opened, output_dir, _ = opening
    ignored = conflicts(speaker, request, opened)
    spool_dir = None if output_dir is None else f"{output_dir}/spool"
    transport, on_batch = speaker.transport(speaker.platform_context(), spool_dir)
    if on_batch is not None:
        ignored.append(transport)
    if ignored:
        verb = "has" if len(ignored) == 1 else "have"
        log.warn(
            "profiler",
            f"this call has joined the session that {holder} began, which keeps its own options "
            f"and writes to {output_dir or 'memory'}: {', '.join(ignored)} {verb} no effect; "
            f"{speaker.advise('joined')}",
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
