"""Runs programs on a terminal of their own, and reads its screen."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import textwrap
import time

TIMEOUT_S = 240


def run_on_terminal(code, *args, columns=100):
    """Runs a program to its end; returns all it wrote to the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    written, deadline = b"", time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            written += os.read(ours, 65536)
        except OSError:  # the program has closed it
            break
    os.close(ours)
    assert process.wait(TIMEOUT_S) == 0, written.decode(errors="replace")
    return written.decode(errors="replace")


def screen_of(text):
    """The lines of the screen after that: what is overwritten or cleared is gone."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(text):
        char, at = text[at], at + 1
        if char == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif char == "\r":
            column = 0
        elif char == "\b":
            column = max(0, column - 1)
        elif char == "\x1b" and text[at : at + 1] == "[":
            end = next(i for i in range(at + 1, len(text)) if text[i].isalpha() or text[i] in "hl")
            argument, kind, at = text[at + 1 : end], text[end], end + 1
            if kind == "K":
                lines[row] = "" if argument == "2" else lines[row][:column]
            elif kind == "A":
                row = max(0, row - int(argument or 1))
        elif char >= " ":
            line = lines[row].ljust(column)
            lines[row] = line[:column] + char + line[column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]
