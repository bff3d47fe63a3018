"""Looks for a project's cirron.yaml, only to warn that it is not read."""

from __future__ import annotations

from os import getcwd, path

from sonde import log

NAMES = ("cirron.yaml", "cirron.yml", "cirron.json")

_said = False


def find() -> str | None:
    """The file that the Cirron SDK would read: in the working directory, or the next above."""
    try:
        folder = getcwd()  # noqa: PTH109
    except OSError:
        return None
    while True:
        for name in NAMES:
            if path.isfile(found := path.join(folder, name)):  # noqa: PTH113, PTH118  (5 ms)
                return found
        if folder == (folder := path.dirname(folder)):  # noqa: PTH120
            return None


def say_unread() -> None:
    """Warns about such a file, once per process."""
    global _said
    if _said or (found := find()) is None:
        return
    _said = True
    log.warn(
        "profiler",
        f"{found} is not read: what it says about profiling has no effect here; give it to "
        "profile() or Cirron() as arguments, in CIRRON_* variables or in ~/.cirron/config.toml",
    )
