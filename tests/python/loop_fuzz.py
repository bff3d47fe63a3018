"""Random training programs, each compared with what it says about itself.

    python tests/python/loop_fuzz.py --minutes 60 --seed 1

prints how many programs were run and, if a trace is wrong, the smallest such program with what
was expected and what was recorded. `--all` goes on after a failure with the next seed, `--parts`
takes only programs of these parts, `--program "Program(...)"` runs one again, as it was printed.
"""

import argparse
import gc
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import cirron as ci
import loop_programs
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from loop_check import Check
from loop_programs import programs
from loop_source import readable, source
from loop_truth import Truth
from loop_writer import PRELUDE
from spool_files import Spool, group
from trees import line

CHUNK = 400  # programs per seed
SESSION = "cirron.session"
PRELUDE_CODE = compile(PRELUDE, "<prelude>", "exec")


class WrongTraceError(AssertionError):
    pass


def run(program, folder=None):
    """Runs a program in its own session. Returns what it says about itself, and its trace."""
    truth = Truth(program.epoch_steps, program.around)
    names = {"T": truth}
    exec(PRELUDE_CODE, names)
    torch.manual_seed(0)
    ci.profile(
        output="spool" if program.on_disk else "none",
        path=folder,
        frameworks=["torch"],
        flush_interval=3600,
        config={"torch": {"epoch_steps": program.epoch_steps}},
    )
    try:
        exec(compile(source(program), "<program>", "exec"), names)
    finally:
        ci.shutdown()
        names.clear()
        gc.collect()
    roots = ci.trace(format="dict")["roots"]
    (root,) = [each for each in roots if each["name"] == SESSION]
    if len(roots) > 1:
        raise WrongTraceError(f"{len(roots) - 1} spans are in nothing\n{program}")
    return truth.finish(), root


def snapshots(folder):
    """What was captured, by the id of the epoch."""
    batches = Spool(Path(folder) / "spool").batches
    return group([record for batch in batches for record in batch["snapshots"]], "span_id")


def check(program):
    captured = None
    if program.on_disk:
        with tempfile.TemporaryDirectory() as folder:
            truth, root = run(program, folder)
            captured = snapshots(folder)
    else:
        truth, root = run(program)
    found = Check(truth, root, captured)
    if count_marks(root) != truth.marks:
        found.say(f"{truth.marks} marks were made, {count_marks(root)} are recorded")
    if found.errors:
        raise WrongTraceError(report(program, truth, root, found))


def count_marks(span):
    """The program's own marks; the first value that is not finite also gets one from us."""
    own = [mark for mark in span["marks"] if mark["name"] != "first_non_finite"]
    return len(own) + sum(count_marks(child) for child in span["children"])


def report(program, truth, root, found):
    parts = [
        repr(program),
        readable(source(program)),
        "wrong: " + "\n       ".join(found.errors[:12]),
        "recorded: " + "\n          ".join(line(child) for child in root["children"]),
    ]
    if len(found.places) == len(truth.ops):
        parts.append("number  span, what the program says, where it is")
        for number, (op, place) in enumerate(zip(truth.ops, found.places, strict=True)):
            parts.append(f"{number:5}  {op.kind:15} {op.where():30} {place.where()}")
    else:
        parts.append("expected: " + " ".join(f"{op.kind} ({op.where()})" for op in truth.ops))
    return "\n\n".join(parts[:4]) + "\n\n" + "\n".join(parts[4:])


def fuzz(examples, seed, until=None, counts=None, parts=()):
    """Runs that many programs; raises WrongTraceError with the smallest that fails."""
    counts = Counter() if counts is None else counts
    failed = False

    @with_seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(programs(parts))
    def each(program):
        nonlocal failed
        # Once a program has failed, it is made smaller, however long that takes.
        if failed or until is None or time.monotonic() < until:
            counts["programs"] += 1
            try:
                check(program)
            except WrongTraceError:
                failed = True
                raise

    with frozen_heap(), quiet():
        each()
    return counts["programs"]


@contextmanager
def frozen_heap():
    """Collections between programs do not look at the objects that exist already."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def quiet():
    """Silences what the profiler logs about each program."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def replay(text):
    try:
        check(eval(text, vars(loop_programs)))
    except WrongTraceError as wrong:
        print(wrong)
        return 1
    print("right")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    parser.add_argument("--parts", nargs="+", default=(), choices=loop_programs.PARTS)
    parser.add_argument("--program", help="a program as it was printed")
    options = parser.parse_args()
    if options.program:
        return replay(options.program)
    until = time.monotonic() + 60 * options.minutes
    counts, failures, seed = Counter(), 0, options.seed
    while time.monotonic() < until:
        try:
            fuzz(CHUNK, seed, until, counts, options.parts)
        except WrongTraceError as wrong:
            failures += 1
            print(f"--- seed {seed}, {counts['programs']} programs\n{wrong}", flush=True)
            if not options.all:
                break
        seed += 1
    print(f"{counts['programs']} programs, {failures} failures, seeds {options.seed} to {seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
