"""The rows of the table: what is measured, against which baseline, and how it becomes numbers.

A name here is a name in budgets.json. Rows that come out of one process share its run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import child
from child import OURS, PEER, engine_bench, script
from report import Measurement, megabytes_text, number, time_text


@dataclass(frozen=True)
class Effort:
    """How much to do; the quick numbers are for trying things out, not for a verdict."""

    rounds: int = 400
    peer_rounds: int = 200
    disabled_scopes: int = 10_000_000
    stall_seconds: int = 30
    peer_stall_seconds: int = 8
    live_seconds: int = 5
    starts: int = 40
    summary_spans: int = 5_000_000
    summary_runs: int = 3
    snapshot_rounds: int = 100
    peer_snapshot_rounds: int = 10
    hook_rounds: int = 15  # in each of the processes
    processes: int = 7
    peer_hook_rounds: int = 5
    blob_rounds: int = 9


FULL = Effort()
QUICK = Effort(
    rounds=80,
    peer_rounds=20,
    disabled_scopes=1_000_000,
    stall_seconds=6,
    peer_stall_seconds=3,
    live_seconds=2,
    starts=10,
    summary_spans=500_000,
    snapshot_rounds=20,
    peer_snapshot_rounds=4,
    hook_rounds=6,
    processes=1,
    peer_hook_rounds=2,
    blob_rounds=2,
)


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    measure: Callable[[Effort], Measurement]


def beside_lock(what: str, effort: Effort) -> Measurement:
    """A call of the hot path. Both SDKs are compared with the lock in their own process."""
    ours = script(OURS, "hot_path", str(effort.rounds))
    if ours["dropped"]:
        raise child.MeasuringError(f"{ours['dropped']} records were dropped while timing")
    ratio = ours[what] / ours["lock"]
    found = Measurement(time_text(ours[what]), f"lock {time_text(ours['lock'])}", f"{ratio:.2f} x")
    found.quantities["ratio"] = ratio
    if child.have_peer():
        peer = script(PEER, "hot_path", str(effort.peer_rounds))
        faster = peer[what] / peer["lock"] / ratio
        found.reference = f"{time_text(peer[what])}, we are {number(faster)} x faster"
        found.quantities["times_faster"] = faster
    return found


def disabled(effort: Effort) -> Measurement:
    ours = script(OURS, "hot_path", str(effort.rounds), "disabled")
    ratio = ours["scope"] / ours["lock"]
    found = Measurement(
        time_text(ours["scope"]), f"lock {time_text(ours['lock'])}", f"{ratio:.2f} x"
    )
    found.quantities["ratio"] = ratio
    if child.have_peer():
        peer = script(PEER, "hot_path", str(effort.peer_rounds), "disabled")
        found.reference = time_text(peer["scope"])
    return found


def disabled_memory(effort: Effort) -> Measurement:
    ours = script(OURS, "disabled_memory", str(effort.disabled_scopes))
    found = Measurement(f"{megabytes_text(ours['grown'])} after {number(ours['scopes'])}")
    found.quantities["megabytes"] = ours["grown"] / 1e6
    if child.have_peer():
        # The reference keeps every scope in memory, so only a few are made.
        peer = script(PEER, "disabled_memory", "100000")
        found.reference = f"{megabytes_text(peer['grown'])} after {number(peer['scopes'])}"
    return found


def cpp_scope(effort: Effort) -> Measurement:
    times = engine_bench("scope", ".", one_core=False)
    scope = times["scope/spool"]["real_time"]
    clocks = times["two_clock_reads"]["real_time"]
    found = Measurement(time_text(scope), f"2 clock reads {time_text(clocks)}")
    found.ratio = f"{scope / clocks:.2f} x"
    found.quantities["ratio"] = scope / clocks
    return found


def stall(effort: Effort) -> Measurement:
    ours = script(OURS, "stall", str(effort.stall_seconds), "20000")
    found = Measurement(
        f"{time_text(ours['stall'])} (usual {time_text(ours['usual'])})",
        f"gap {time_text(ours['gap'])}, bare loop {time_text(ours['control_gap'])}",
    )
    found.quantities["milliseconds"] = ours["stall"] / 1e6
    for way in ("waiting", "making_way", "working"):
        found.quantities[f"{way}_milliseconds"] = ours[way] / 1e6
    if child.have_peer():
        peer = script(PEER, "stall", str(effort.peer_stall_seconds), "20000")
        found.reference = f"{time_text(peer['stall'])} (usual {time_text(peer['usual'])})"
    return found


def drain(effort: Effort) -> Measurement:
    rates = engine_bench("drain", "^drain", one_core=True)
    ours = rates["drain/spool"]["items_per_second"]
    naive = rates["drain_naive"]["items_per_second"]
    found = Measurement(f"{number(ours)} spans/s", f"fprintf {number(naive)}/s")
    found.ratio = f"{ours / naive:.2f} x"
    found.quantities["spans_per_second"] = ours
    if child.have_peer():
        peer = script(PEER, "flush_rate", "5")["spans_per_second"]
        found.reference = f"{number(peer)} spans/s"
    return found


def drain_live(effort: Effort) -> Measurement:
    wanted = f"live_at_a_million/{effort.live_seconds}"
    (run,) = engine_bench("drain", f"^{wanted}/", one_core=False).values()
    (plain,) = engine_bench("drain", "^plain_write", one_core=True).values()
    found = Measurement(
        f"{number(run['dropped'])} dropped at {number(run['items_per_second'])}/s",
        f"plain write {number(plain['bytes_per_second'] / 1e6)} MB/s",
    )
    found.quantities["dropped"] = run["dropped"]
    found.quantities["spans_per_second"] = run["items_per_second"]
    found.quantities["last_flush_milliseconds"] = run["last_flush_ms"]
    return found


def held_memory(effort: Effort) -> Measurement:
    ours = script(OURS, "held", "100000", "9")
    found = Measurement(megabytes_text(ours["grown"]))
    found.quantities["megabytes"] = ours["grown"] / 1e6
    if child.have_peer():
        found.reference = megabytes_text(script(PEER, "held", "100000", "3")["grown"])
    return found


def held_df(effort: Effort) -> Measurement:
    ours = script(OURS, "held", "100000", "9")
    ratio = ours["df"] / ours["by_hand"]
    found = Measurement(
        time_text(ours["df"] * 1e9),
        f"of dicts {time_text(ours['by_hand'] * 1e9)}",
        f"{ratio:.2f} x",
    )
    found.quantities["ratio"] = ratio
    if child.have_peer():
        peer = script(PEER, "held", "100000", "3")
        faster = peer["df"] / peer["by_hand"] / ratio
        found.reference = f"{time_text(peer['df'] * 1e9)}, we are {number(faster)} x faster"
        found.quantities["times_faster"] = faster
    return found


def full_spool(effort: Effort) -> Measurement:
    ours = script(OURS, "full_spool", "20000", "5")
    full, empty = ours["full"], ours["empty"]
    found = Measurement(
        f"{time_text(full['any'] * 1e6)} (first {time_text(full['first'] * 1e6)})",
        f"empty {time_text(empty['any'] * 1e6)} (first {time_text(empty['first'] * 1e6)})",
    )
    # The worse of the two counts: a first flush may list the directory, but is a flush too.
    extra = max(full["any"] - empty["any"], full["first"] - empty["first"])
    found.ratio = f"{extra:+.3g} ms"
    found.quantities["extra_milliseconds"] = extra
    if child.have_peer():
        peer = script(PEER, "full_spool", "20000", "1")
        found.reference = f"{peer['full']['any'] - peer['empty']['any']:+.3g} ms"
    return found


def session(effort: Effort) -> Measurement:
    rounds = str(effort.rounds // 4)
    ours = script(OURS, "session", rounds, processes=effort.processes)
    found = Measurement(time_text(ours["again"]), f"first {time_text(ours['first'])}")
    found.quantities["milliseconds"] = ours["again"] / 1e6
    if child.have_peer():
        peer = script(PEER, "session", rounds)
        found.reference = f"{time_text(peer['again'])} (first {time_text(peer['first'])})"
    return found


def start_seconds(python: Path, code: str, home: Path) -> float:
    start = time.perf_counter()
    child.run([python, "-c", code], home)
    return time.perf_counter() - start


def import_milliseconds(where: Path, starts: int) -> tuple[float, float]:
    """(with the import, bare), the medians of processes started in turn."""
    bare, loaded = [], []
    with child.Scratch() as home:
        for code in ("pass", "import cirron"):
            start_seconds(where / "python", code, home)  # fills the disk cache
        for _ in range(starts):
            bare.append(start_seconds(where / "python", "pass", home))
            loaded.append(start_seconds(where / "python", "import cirron", home))
    return median(loaded) * 1e3, median(bare) * 1e3


def import_time(effort: Effort) -> Measurement:
    loaded, bare = import_milliseconds(OURS, effort.starts)
    found = Measurement(f"{number(loaded)} ms", f"bare {number(bare)} ms")
    found.ratio = f"+{number(loaded - bare)} ms"
    found.quantities["extra_milliseconds"] = loaded - bare
    if child.have_peer():
        peer_loaded, peer_bare = import_milliseconds(PEER, max(5, effort.starts // 5))
        found.reference = f"+{number(peer_loaded - peer_bare)} ms"
    return found


def spool_of(spans: int) -> Path:
    """A spool with that many spans, written by the installed wheel; kept for the next run."""
    kept = child.DATA / f"spool-{spans}"
    (package,) = OURS.parent.glob("lib/python*/site-packages/sonde")
    if kept.is_dir() and kept.stat().st_mtime > package.stat().st_mtime:
        return kept
    child.progress(f"writing a spool of {spans:,} spans")
    shutil.rmtree(kept, ignore_errors=True)
    with child.Scratch() as home:
        made = home / "out"
        child.run([OURS / "python", child.BENCH / "make_spool.py", made, str(spans)], home)
        made.rename(kept)
    kept.touch()
    return kept


def read_once(files: Path) -> dict[str, float]:
    """What reading alone takes, on the same core."""
    pinned: list[str | Path] = ["taskset", "-c", str(child.ONE_CORE), OURS / "python"]
    with child.Scratch() as home:
        return child.last_json(child.run([*pinned, child.BENCH / "read_pass.py", files], home))


def summary_once(spool: Path) -> tuple[float, int]:
    """(seconds, most bytes in memory) of the command on one core."""
    command = ["taskset", "-c", str(child.ONE_CORE), OURS / "sonde", "trace", "--summary", spool]
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise child.MeasuringError(f"sonde trace --summary ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


SUMMARIES: dict[int, tuple[float, float, int, int]] = {}


def summaries(effort: Effort) -> tuple[float, float, int, int]:
    """(MB/s of the command, MB/s of only reading, most memory, bytes), run in turn."""
    if effort.summary_spans not in SUMMARIES:
        spool = spool_of(effort.summary_spans)
        reading, adding, most, size = [], [], 0, 0
        for _ in range(effort.summary_runs):
            passed = read_once(spool / "spool")
            size = int(passed["bytes"])
            reading.append(size / passed["seconds"] / 1e6)
            seconds, memory = summary_once(spool)
            adding.append(size / seconds / 1e6)
            most = max(most, memory)
        SUMMARIES[effort.summary_spans] = median(adding), median(reading), most, size
    return SUMMARIES[effort.summary_spans]


def summary(effort: Effort) -> Measurement:
    rate, reading, _, size = summaries(effort)
    found = Measurement(
        f"{number(rate)} MB/s of {number(size / 1e6)} MB", f"reading {number(reading)} MB/s"
    )
    found.ratio = f"{rate / reading:.2f} x"
    found.quantities["megabytes_per_second"] = rate
    return found


def summary_memory(effort: Effort) -> Measurement:
    _, _, most, size = summaries(effort)
    found = Measurement(
        megabytes_text(most), f"spool {megabytes_text(size)}", f"{most / size:.3f} x"
    )
    found.quantities["megabytes"] = most / 1e6
    return found


def plus(found: dict[str, float]) -> str:
    extra = found["extra_us"] * 1e3
    return f"{'+' if extra >= 0 else '-'}{time_text(abs(extra))}"


def hooked_step(effort: Effort) -> Measurement:
    rounds = str(effort.hook_rounds // 3)
    ours = script(OURS, "hooks", "nothing", rounds, processes=effort.processes)
    found = Measurement(plus(ours), f"bare {time_text(ours['bare_us'] * 1e3)}")
    found.quantities["microseconds"] = ours["extra_us"]
    if child.have_peer():
        peer = script(PEER, "hooks", "nothing", "2")
        found.reference = plus(peer)
    return found


def hooked_submodule(effort: Effort) -> Measurement:
    rounds = str(effort.hook_rounds)
    ours = script(OURS, "hooks", "submodules", rounds, processes=effort.processes)
    found = Measurement(plus(ours), f"bare {time_text(ours['bare_us'] * 1e3)}")
    found.quantities["nanoseconds"] = ours["extra_us"] * 1e3
    if child.have_peer():
        peer = script(PEER, "hooks", "submodules", "5")
        found.reference = plus(peer)
    return found


def hooked_loop(loop: str, rounds: int, limit_percent: float, effort: Effort) -> Measurement:
    """By the clock if its noise is below the limit, otherwise the hooks' own time per step."""
    ours = script(OURS, "hooks", loop, str(rounds), processes=effort.processes)
    counted = 100 * ours["counted"]
    clock, noise = 100 * ours["overhead"], 100 * ours["noise"]
    by_clock = noise < limit_percent
    found = Measurement(
        f"{clock:+.2f} % (noise {noise:.2f} %)",
        f"bare {time_text(ours['bare_us'] * 1e3)}",
        f"counted {counted:.2f} %",
    )
    found.quantities["percent"] = clock if by_clock else counted
    if child.have_peer():
        peer = script(PEER, "hooks", loop, str(effort.peer_hook_rounds))
        found.reference = f"{100 * peer['overhead']:+.2f} %"
    return found


def boundary(what: str, effort: Effort) -> dict[str, float]:
    return script(OURS, "snapshots", "boundary", what, str(effort.snapshot_rounds), "1")


def snapshot_cpu(effort: Effort) -> Measurement:
    ours = boundary("resnet50", effort)
    ratio = ours["snapshot"] / ours["sum"]
    found = Measurement(
        time_text(ours["snapshot"] * 1e9),
        f"torch.sum {time_text(ours['sum'] * 1e9)}",
        f"{ratio:.2f} x",
    )
    found.quantities["ratio"] = ratio
    if child.have_peer():
        peer = script(PEER, "snapshots", "boundary", "resnet50", str(effort.peer_snapshot_rounds))
        faster = peer["snapshot"] / peer["sum"] / ratio
        found.reference = f"{time_text(peer['snapshot'] * 1e9)}, we are {number(faster)} x faster"
        found.quantities["times_faster"] = faster
    return found


def snapshot_threads(effort: Effort) -> Measurement:
    rounds = str(effort.snapshot_rounds // 4)
    ours = script(OURS, "snapshots", "measure", "resnet50", rounds, "2", processes=effort.processes)
    speedup = ours["one"] / ours["threads"]
    found = Measurement(
        time_text(ours["threads"] * 1e9),
        f"one {time_text(ours['one'] * 1e9)}, torch.sum {ours['sum_speedup']:.2f} x",
        f"{speedup:.2f} x",
    )
    found.quantities["speedup"] = speedup
    return found


def snapshot_small(effort: Effort) -> Measurement:
    each = boundary("small", effort)["snapshot"] / 300
    found = Measurement(time_text(each * 1e9))
    found.quantities["tensor_microseconds"] = each * 1e6
    if child.have_peer():
        peer = script(PEER, "snapshots", "boundary", "small", str(effort.peer_snapshot_rounds))
        found.reference = time_text(peer["snapshot"] / 300 * 1e9)
    return found


def blob(effort: Effort) -> Measurement:
    """By the clock if its noise is below the limit, otherwise the training thread's own time."""
    ours = script(OURS, "blob", str(effort.blob_rounds))
    clock, noise, cpu = (100 * ours[key] for key in ("overhead", "noise", "cpu_overhead"))
    found = Measurement(
        f"{clock:+.2f} % (noise {noise:.2f} %)",
        f"bare {time_text(ours['bare_us'] * 1e3)}",
        f"its own time {cpu:+.2f} %",
    )
    found.quantities["percent"] = clock if noise < 3 else cpu
    return found


ROWS = (
    Row("scope", 'with ci.scope("x"): pass', lambda e: beside_lock("scope", e)),
    Row("mark", 'ci.mark("loss", 0.5)', lambda e: beside_lock("mark", e)),
    Row("epochs", "ci.epochs, one iteration", lambda e: beside_lock("epochs", e)),
    Row("batches", "ci.batches, one iteration", lambda e: beside_lock("batches", e)),
    Row("disabled", "scope with enabled=False", disabled),
    Row("disabled-memory", "  its memory", disabled_memory),
    Row("cpp-scope", "SONDE_SCOPE in C++", cpp_scope),
    Row("stall", "stall at 20,000 spans/s", stall),
    Row("hooks-step", "torch hooks of a step, alone", hooked_step),
    Row("hooks-submodule", "  each further submodule", hooked_submodule),
    Row("hooks-mlp", "two-layer MLP, batch 8", lambda e: hooked_loop("mlp", e.hook_rounds, 3, e)),
    Row(
        "hooks-convnet",
        "small convnet",
        lambda e: hooked_loop("convnet", e.hook_rounds // 5, 0.3, e),
    ),
    Row(
        "hooks-transformer",
        "6-layer transformer",
        lambda e: hooked_loop("transformer", e.hook_rounds // 5, 0.3, e),
    ),
    Row("snapshot-cpu", "statistics of ResNet-50's weights", snapshot_cpu),
    Row("snapshot-threads", "  on two threads", snapshot_threads),
    Row("snapshot-small", "  of 300 x 1,000 weights, each", snapshot_small),
    Row("snapshot-blob", "step while 1 GB is written", blob),
    Row("drain", "drain to JSON, one core", drain),
    Row("drain-live", "  live at 1 M spans/s", drain_live),
    Row("held-memory", "100,000 spans + marks held", held_memory),
    Row("held-df", '  trace(format="df")', held_df),
    Row("full-spool", "flush, 20,000 files there", full_spool),
    Row("session", "profile() and shutdown()", session),
    Row("import", "import cirron", import_time),
    Row("summary", "sonde trace --summary", summary),
    Row("summary-memory", "  its memory", summary_memory),
)
