"""Directories that fail: no permission, full, gone, crowded, shared; and a clock that is set."""

import contextlib
import logging
import os
import shutil
import subprocess
import time

import cirron as ci
import pytest
from child_process import RunningPython, run_python
from spool_files import Spool


def record(count=3, name="x"):
    for number in range(count):
        with ci.scope(name, index=number):
            ci.mark("n", number)


def warnings_of(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("cirron") and record.levelno >= logging.WARNING
    ]


@pytest.fixture
def unusable(tmp_path, request):
    """A directory that no user can write into, not even root."""
    if request.param == "file":
        (tmp_path / "taken").write_text("a file")
        return tmp_path / "taken"
    if request.param == "below a file":
        (tmp_path / "taken").write_text("a file")
        return tmp_path / "taken" / "deeper"
    if request.param == "proc":
        return "/proc/sonde"
    if request.param == "name too long":
        return tmp_path / ("n" * 300)
    (tmp_path / "link").symlink_to(tmp_path / "link")
    return tmp_path / "link"


UNUSABLE = pytest.mark.parametrize(
    "unusable", ["file", "below a file", "proc", "name too long", "link to itself"], indirect=True
)


@UNUSABLE
@pytest.mark.parametrize("output", ["spool", ["spool", "stdout"]], ids=["spool", "both"])
def test_training_goes_on_without_a_directory(unusable, output, caplog, capsys):
    start = time.monotonic()
    handle = ci.profile(path=unusable, output=output, flush_interval=3600)
    record()
    ci.flush()
    record()
    ci.flush()
    assert handle.enabled
    health = ci.health()
    assert ci.trace(format="dict", name="x")["span_count"] == 6
    ci.shutdown()
    assert time.monotonic() - start < 5
    texts = warnings_of(caplog)
    assert 1 <= len(texts) <= 2  # one for the journal, one for the spool
    for text in texts:
        assert str(unusable) in text
        assert "writable" in text
    assert health["flush_mode"] == "degraded" or health["spool_write_failures"] > 0


@pytest.mark.parametrize("in_the_way", ["", "live", "spool"])
def test_advice_fits_a_full_disk_and_a_directory_without_permission(tmp_path, in_the_way, caplog):
    (tmp_path / "out").mkdir()
    if in_the_way:
        (tmp_path / "out" / in_the_way).write_text("in the way")
    else:
        (tmp_path / "out").rmdir()
        (tmp_path / "out").write_text("in the way")
    ci.profile(path=tmp_path / "out", flush_interval=3600)
    record()
    ci.flush()
    ci.shutdown()
    texts = warnings_of(caplog)
    assert texts
    for text in texts:
        assert text.endswith("; free space there, make it writable, or pass profile(path=...)")


@UNUSABLE
def test_output_none_does_not_look_at_the_directory(unusable, caplog):
    ci.profile(path=unusable, output="none")
    record()
    ci.shutdown()
    assert warnings_of(caplog) == []


def test_current_directory_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run_python(
        """
        import os, sys
        os.chdir(sys.argv[1])
        os.rmdir(sys.argv[1])
        import cirron as ci
        assert ci.profile().enabled
        with ci.scope("x"):
            pass
        ci.flush()
        assert ci.trace(format="dict", name="x")["span_count"] == 1
        """,
        gone,
    )
    assert "absolute path" in done.stderr


def test_directory_name_that_is_not_utf8(tmp_path, caplog):
    path = tmp_path / os.fsdecode(b"\xff")
    ci.profile(path=path)
    record()
    ci.shutdown()
    assert (path / "spool").is_dir() or warnings_of(caplog)


def test_removed_directory_comes_back(session, spool_dir, caplog):
    record()
    ci.flush()
    shutil.rmtree(spool_dir.parent)
    record(name="y")
    ci.flush()
    record(name="z")
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("y")) == 3
    assert len(spool.named("z")) == 3
    assert spool.one("cirron.session")


def test_directory_replaced_by_a_file_and_back(session, spool_dir, caplog):
    record()
    ci.flush()
    output = spool_dir.parent
    shutil.rmtree(output)
    output.write_text("in the way")
    record(name="y")
    ci.flush()
    assert ci.health()["flush_mode"] == "degraded"
    assert len(warnings_of(caplog)) >= 1
    output.unlink()
    record(name="z")
    ci.shutdown()
    spool = Spool(spool_dir)
    assert len(spool.named("y")) == 3
    assert len(spool.named("z")) == 3


def test_chdir_after_profile(session, spool_dir, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    record()
    ci.shutdown()
    assert len(Spool(spool_dir).named("x")) == 3
    assert list(elsewhere.iterdir()) == []


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system with room for next to nothing."""
    point = tmp_path / "tiny"
    point.mkdir()

    def mount(size):
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
        return point

    yield mount
    subprocess.run(["umount", "-l", str(point)], capture_output=True, timeout=20)


FILL = """
    import logging, os, sys
    import cirron as ci
    logging.basicConfig(format="LOG %(levelname)s %(message)s")
    ci.profile(path=sys.argv[1] + "/out", flush_interval=0.01)
    for number in range(20_000):
        with ci.scope("x", index=number, text="some text to fill the disk with"):
            ci.mark("n", number)
        if number % 500 == 0:
            ci.flush()
    health = ci.health()
    assert health["enabled"]
    assert health["spool_write_failures"] > 0, health
    assert health["flush_mode"] == "degraded", health
    ci.shutdown()
    print("done")
"""


@pytest.mark.parametrize("size", ["16k", "256k", "3m"])
def test_disk_full(tiny_disk, size):
    point = tiny_disk(size)
    done = run_python(FILL, point, timeout=60)
    assert done.stdout == "done\n"
    texts = [line for line in done.stderr.splitlines() if line.startswith("LOG WARNING")]
    assert 1 <= len(texts) <= 4, done.stderr
    assert len(set(texts)) == len(texts)
    for file in (point / "out").glob("spool/*.json"):
        assert file.stat().st_size > 0
    Spool(point / "out/spool")


def test_disk_full_and_then_room_again(tiny_disk):
    point = tiny_disk("8m")
    filler = point / "filler"
    ci.profile(path=point / "out", flush_interval=3600)
    record()
    ci.flush()
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    record(name="y")
    ci.flush()
    filler.unlink(missing_ok=True)
    record(name="z")
    ci.flush()
    ci.shutdown()
    spool = Spool(point / "out/spool")
    assert len(spool.named("x")) == len(spool.named("z")) == 3
    assert len(spool.named("y")) == 3


def test_read_only_file_system(tiny_disk, caplog):
    point = tiny_disk("1m")
    done = subprocess.run(
        ["mount", "-o", "remount,ro", str(point)], capture_output=True, timeout=20
    )
    if done.returncode != 0:
        pytest.skip("cannot remount read-only here")
    ci.profile(path=point / "out", flush_interval=3600)
    record()
    ci.flush()
    assert ci.trace(format="dict", name="x")["span_count"] == 3
    ci.shutdown()
    texts = warnings_of(caplog)
    assert 1 <= len(texts) <= 2
    for text in texts:
        assert str(point) in text
        assert "Read-only file system" in text


# -- crowded and shared ----------------------------------------------------------------------------


def crowd(spool_dir, count, size=2):
    spool_dir.mkdir(parents=True)
    for number in range(count):
        (spool_dir / f"{number:020d}-{number:032x}.json").write_text("{}".ljust(size))


def test_spool_with_20_000_files(spool_dir):
    crowd(spool_dir, 20_000)
    start = time.monotonic()
    ci.profile(flush_interval=3600)
    assert time.monotonic() - start < 1.0
    for number in range(20):
        record(1, name=f"n{number}")
        start = time.monotonic()
        ci.flush()
        elapsed = time.monotonic() - start
        if number >= 5:
            assert elapsed < 0.2
    ci.shutdown()
    assert len(list(spool_dir.glob("*.json"))) == 20_000 + 21


def test_cap_evicts_the_oldest_files_and_counts(spool_dir, caplog):
    crowd(spool_dir, 50, size=1000)
    ci.Cirron(spool_max_bytes=20_000).profile(flush_interval=3600)
    record()
    ci.flush()
    time.sleep(0.3)
    record()
    ci.flush()
    health = ci.health()
    ci.shutdown()
    files = sorted(spool_dir.glob("*.json"))
    assert sum(file.stat().st_size for file in files) <= 20_000
    assert files[0].name.startswith(f"{50 - sum(f.stat().st_size == 1000 for f in files):020d}")
    assert health["spool_drop_count"] >= 30
    assert len([text for text in warnings_of(caplog) if "spool" in text]) == 1


def test_newest_file_survives_the_cap(spool_dir):
    ci.Cirron(spool_max_bytes=10).profile(flush_interval=3600)
    record()
    ci.flush()
    assert len(list(spool_dir.glob("*.json"))) == 1


def test_foreign_files_in_the_spool_are_left_alone(spool_dir):
    spool_dir.mkdir(parents=True)
    (spool_dir / "notes.txt").write_text("mine")
    (spool_dir / "mine.json").write_text("{}")
    ci.Cirron(spool_max_bytes=1).profile(flush_interval=3600)
    record()
    ci.shutdown()
    assert (spool_dir / "notes.txt").read_text() == "mine"
    assert (spool_dir / "mine.json").read_text() == "{}"


def test_two_processes_in_one_directory(tmp_path):
    code = """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=0.005)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(2000):
            with ci.scope("step", index=number):
                ci.mark("n", number)
        assert ci.health()["recovered_journals"] == 0
    """
    with RunningPython(code, tmp_path) as one, RunningPython(code, tmp_path) as two:
        one.wait_for()
        two.wait_for()
        for child in (one, two):
            child.process.stdin.write("go\n")
            child.process.stdin.flush()
        for child in (one, two):
            status, _, errors = child.finish(timeout=40)
            assert (status, errors) == (0, "")
    spool = Spool(tmp_path / "spool")
    for pid in (one.pid, two.pid):
        steps = [span for span in spool.named("step") if span["pid"] == pid]
        assert sorted(span["index"] for span in steps) == list(range(2000))
    assert len(spool.named("cirron.session")) == 2


def test_running_process_keeps_its_journal(tmp_path):
    code = """
        import sys
        import cirron as ci
        ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("unflushed"):
            pass
        print("ready", flush=True)
        sys.stdin.readline()
    """
    with RunningPython(code, tmp_path) as child:
        child.wait_for()
        ci.profile(path=tmp_path)
        assert ci.health()["recovered_journals"] == 0
        ci.shutdown()
        status, _, errors = child.finish("go\n", timeout=20)
    assert (status, errors) == (0, "")
    assert len(Spool(tmp_path / "spool").named("unflushed")) == 1


def test_no_temporary_files_are_left(session, spool_dir):
    for _ in range(5):
        record()
        ci.flush()
    ci.shutdown()
    assert [file for file in spool_dir.iterdir() if file.suffix != ".json"] == []


# -- time ------------------------------------------------------------------------------------------

STEPPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
// The wall clock is two hours behind while the file named in STEP_FILE exists.
int clock_gettime(clockid_t clock, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, t);
  if (clock == CLOCK_REALTIME && access(getenv("STEP_FILE"), F_OK) == 0) t->tv_sec -= 7200;
  return result;
}
"""


@pytest.fixture
def stepping_clock(tmp_path):
    """Environment of a process whose wall clock steps back while a file exists."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the stepping clock with")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(STEPPING_CLOCK)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60
    )
    return {"LD_PRELOAD": str(library), "STEP_FILE": str(tmp_path / "step")}


def test_clock_that_steps_back(tmp_path, stepping_clock):
    done = run_python(
        """
        import os, sys, time
        import cirron as ci
        step = os.environ["STEP_FILE"]
        ci.profile(path=sys.argv[1], flush_interval=3600)
        with ci.scope("before"):
            time.sleep(0.01)
        with ci.scope("across"):
            time.sleep(0.01)
            first = time.time()
            open(step, "w").close()
            assert time.time() < first - 7000, "the clock did not step"
            time.sleep(0.01)
        ci.flush()
        with ci.scope("after"):
            time.sleep(0.01)
        ci.flush()
        os.unlink(step)
        with ci.scope("forward again"):
            time.sleep(0.01)
        ci.flush()
        print(ci.health()["clock_steps"])
        """,
        tmp_path / "out",
        env=stepping_clock,
    )
    spool = Spool(tmp_path / "out/spool")
    for name in ("before", "across", "after", "forward again"):
        span = spool.one(name)
        assert 9_000_000 < span["end_ns"] - span["start_ns"] < 1_000_000_000
    order = [spool.one(name)["start_ns"] for name in ("before", "across", "after", "forward again")]
    assert order == sorted(order)
    assert [name for name in spool.names() if name != "cirron.session"] == [
        "before",
        "across",
        "after",
        "forward again",
    ]
    assert int(done.stdout) >= 1
