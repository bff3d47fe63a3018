"""An API besides Cirron, defined in a program of its own."""

from textwrap import dedent

from child_process import run_python

FACE = """
from sonde import session
from sonde.face import Face


class Other(Face):
    name = "other"
    directory = "logs"
    variable_prefix = "OTHER_"
    platform_ids = ("job",)
    file_transport = "nowhere"
    option_names = {"directory": "logs_dir", "snapshots": "mode"}
    advice = {"started-twice": "say stop() first"}
    calls = {"start": "init()", "watch": "other.see", "wrap": "other.follow"}


class Handle(session.Profiler):
    __slots__ = ()


def init(mode=None, logs_dir=None, enabled=True, **more):
    wanted = {"snapshots": mode, "directory": logs_dir, **more}
    return session.begin(Other(), Handle, wanted, enabled=enabled)
"""


def run(code, **options):
    return run_python(FACE + dedent(code), **options)
