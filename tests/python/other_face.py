"""An API besides Cirron, defined in a program of its own."""

from textwrap import dedent

from child_process import run_python

FACE = """
from sonde import readback, session
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


class Handle(session.Handle):
    __slots__ = ()

    def health(self):
        state = self.state()
        own = {"enabled": state.live, "spool_dir": state.spool_dir, "transport": state.transport}
        return state.counters | own

    def trace(self, format, name=None, last=None, summary=False):
        return readback.trace(format, name, last, summary, Other())


def init(mode=None, logs_dir=None, enabled=True, **more):
    wanted = {"snapshots": mode, "directory": logs_dir, **more}
    return session.begin(Other(), Handle, wanted, enabled=enabled)
"""


def run(code, **options):
    return run_python(FACE + dedent(code), **options)
