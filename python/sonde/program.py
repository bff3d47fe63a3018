"""Which run this process is part of: a new one, or that of the program that started it.

All processes of a program have the same run id. Forked children inherit it, children of
multiprocessing find it in the environment. Where the main program has no session, the id of its
children is made from the key that multiprocessing gives all of them. Any other subprocess is a
program with a run of its own.
"""

from __future__ import annotations

import os
import sys

from sonde import process
from sonde._core import attrs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

VARIABLE = "SONDE_RUN"

# Variables that launchers (torchrun, Slurm, MPI) set alike for all processes of a job.
LAUNCHER_VARIABLES = (
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "MASTER_ADDR",
    "MASTER_PORT",
)

_seed = os.urandom(8).hex()  # forked children inherit it
_sessions = 0  # begun in this process
_forked = False  # from a process that had begun a session


class Membership:
    """The run that a session is part of. Making one counts a session: make one for each."""

    __slots__ = ("child", "launch", "process", "run")

    def __init__(self) -> None:
        global _sessions
        _sessions += 1
        processes = process.multiprocessing_of_a_child()
        self.child = processes is not None or _forked
        self.process = _name(processes) if self.child else ""
        self.launch = ":".join(filter(None, map(os.environ.get, LAUNCHER_VARIABLES)))
        self.run = (self.child and _inherited()) or f"{_key()}{_sessions:04x}"
        if not self.child:
            os.environ[VARIABLE] = self.run

    def attributes(self) -> dict[str, object]:
        """Attributes of the session, for readers of the spool."""
        found = {attrs.RUN: self.run, attrs.PROCESS: self.process, attrs.LAUNCH: self.launch}
        return {name: value for name, value in found.items() if value}


def _inherited() -> str:
    """The run id that the main program has put into the environment of its children.

    "" where the main program itself found it in its environment: then it is the id of another
    program, which started the main program.
    """
    run = os.environ.get(VARIABLE, "")
    if not run or process.multiprocessing_of_a_child() is None:
        return run
    main = os.getppid()
    try:
        while b"from multiprocessing." in _of_process(main, "cmdline"):
            main = int(_of_process(main, "stat").rpartition(b")")[2].split()[1])  # its parent
        given = _of_process(main, "environ").split(b"\0")
    except OSError:  # gone, or another user's
        return run
    return "" if f"{VARIABLE}={run}".encode() in given else run


def _of_process(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123  (pathlib would cost 5 ms)
        return file.read()


def _name(processes: ModuleType | None) -> str:
    if processes is None:
        return f"fork of {os.getppid()}"
    return str(processes.current_process().name)


def _key() -> str:
    """The same in all processes of this program, as far as that can be known; 16 digits."""
    processes = sys.modules.get("multiprocessing.process")
    secret = b"" if processes is None else bytes(processes.current_process().authkey)
    if len(secret) != 32:  # chosen by the user: another program may have the same
        return _seed
    return _digest(secret)


def _digest(secret: bytes) -> str:
    try:
        from _blake2 import blake2b  # hashlib would load OpenSSL
    except ImportError:
        from hashlib import blake2b
    return str(blake2b(secret, digest_size=8, person=b"sonde.run").hexdigest())


def _reset_in_child() -> None:
    global _forked, _sessions
    _forked = _forked or _sessions != 0
    _sessions = 0


process.at_fork_in_child(_reset_in_child)
