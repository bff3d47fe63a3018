"""Programs that end in some way, and what their trace says about it."""

import textwrap

from child_process import run_python
from sonde_command import sonde
from spool_files import Spool

START = """
    import os, signal, sys, threading, time
    import cirron as ci
    {before}
    ci.profile(path=sys.argv[1])
"""
KNOWN_ENDS = ("ended_by", "exit_code", "signal", "exception", "exception_message")


def program(then, before=""):
    start = textwrap.dedent(START).format(before=textwrap.dedent(before))
    return start + textwrap.dedent(then)


def run(tmp_path, then, before=""):
    """The finished process and its spool."""
    done = run_python(program(then, before), tmp_path / "out", check=False)
    return done, Spool(tmp_path / "out/spool")


def ending(span):
    return {name: span["attrs"][name] for name in KNOWN_ENDS if name in span["attrs"]}


def raised(span):
    return span["attrs"].get("exception"), span["attrs"].get("exception_message")


def session_line(tmp_path):
    return sonde("trace", tmp_path / "out").stdout.splitlines()[0]


def autopsy_line(tmp_path):
    return sonde("autopsy", tmp_path / "out").stdout.splitlines()[-1]
