"""Programs with several processes, and the runs that they leave."""

import os
import re
import subprocess
import sys
import textwrap

from child_process import TIMEOUT_S
from sonde_command import sonde
from spool_files import Spool

METHODS = ["spawn", "forkserver", "fork"]

# A spawned child imports the main program, and so calls profile() again.
# The first call comes before multiprocessing is imported.
AT_MODULE_LEVEL = """
    import os, signal, sys, time
    import cirron as ci

    ci.profile(path=sys.argv[1], flush_interval=3600)
    import multiprocessing

    def work(number):
        with ci.scope("work", index=number):
            pass
"""

# The main program does not call profile(); its workers do.
IN_THE_CHILD = """
    import multiprocessing, os, signal, sys, time
    import cirron as ci

    def work(number):
        ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("work", index=number):
            pass
"""

START_THREE = """
    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[2])
        children = [context.Process(target=work, args=(n,)) for n in range(3)]
        for child in children: child.start()
        for child in children: child.join()
        assert [child.exitcode for child in children] == [0, 0, 0]
"""


class Program:
    """A program in a file, as multiprocessing needs it, and what it left."""

    def __init__(self, folder):
        self.folder = folder
        self.out = folder / "out"

    def write(self, *parts, name="program.py"):
        (self.folder / name).write_text("\n".join(map(textwrap.dedent, parts)), encoding="utf-8")
        return self

    def start(self, *args, name="program.py", env=None):
        return subprocess.Popen(
            [sys.executable, "-u", self.folder / name, self.out, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=os.environ | (env or {}),
        )

    def run(self, *args, **kwargs):
        process = self.start(*args, **kwargs)
        output, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
        return output

    def spool(self):
        return Spool(self.out / "spool")

    def journals(self):
        return sorted((self.out / "live").glob("*"))

    def run_count(self):
        """The number of runs, as the command counts them."""
        asked = sonde("trace", self.out, "--run", "999")
        return int(re.search(r"holds (?:only run|runs 1 to) (\d+);", asked.stderr)[1])

    def sessions(self):
        return self.spool().named("cirron.session")


def run_ids(sessions):
    return {session["attrs"]["sonde.run"] for session in sessions}


def children(sessions):
    return [session for session in sessions if "sonde.process" in session["attrs"]]
