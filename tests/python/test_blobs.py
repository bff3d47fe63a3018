"""Raw tensors in safetensors files: bit for bit, whatever the type, and only whole files."""

import json
import logging
import re
import signal
import subprocess
import time
import urllib.parse
from pathlib import Path

import cirron as ci
import numpy as np
import pytest
from blob_writing import write_blob
from child_process import RunningPython, run_python

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")
from safetensors.torch import load_file  # noqa: E402

# For programs in other processes: the modules that the tests of this folder share.
SHARED = {"PYTHONPATH": str(Path(__file__).parent)}


def records_in(spool_dir):
    files = sorted(spool_dir.glob("*.json"))
    return [record for file in files for record in json.loads(file.read_text())["snapshots"]]


def write(tensors, kind="weights"):
    """Writes through a session and ends it. Returns the path of the file and the records."""
    ci.profile(flush_interval=3600)
    span = write_blob(list(tensors), list(tensors.values()), kind)
    ci.shutdown()
    records = [r for r in records_in(Path(".cirron/spool")) if r["span_id"] == span]
    return Path(f".cirron/snapshots/{span}/{kind}.safetensors").resolve(), records


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def every_type():
    torch.manual_seed(0)
    raw = torch.randint(0, 256, (48,), dtype=torch.uint8)
    names = (
        "bool uint8 float32 complex64 float16 int16 float64 bfloat16 int64 int8 int32 uint16 uint32"
        " uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    )
    for name in names.split():
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        yield name, (raw % 2).bool() if name == "bool" else raw.view(dtype)


def test_every_type_comes_back_bit_for_bit():
    tensors = dict(every_type())
    assert len(tensors) > 14
    path, records = write(tensors)
    read = load_file(path)
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype, name
        assert read[name].shape == tensor.shape, name
        assert bits(read[name]) == bits(tensor), name
    assert [r["dtype"] for r in records] == list(tensors)
    for record in records:
        assert record["mode"] == "full"
        assert urllib.parse.unquote(record["blob_uri"]) == f"file://{path}"


def test_every_layout_comes_back_in_order():
    base = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    tensors = {
        "plain": base,
        "transposed": base.permute(3, 1, 0, 2),
        "sliced": base[:, ::2, 1:, ::3],
        "expanded": base[:1].expand(4, 3, 4, 5),
        "channels last": base.contiguous(memory_format=torch.channels_last),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "conv": torch.nn.Conv2d(3, 4, 3).weight,
        "numpy": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "complex128": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128),
    }
    path, _ = write(tensors, "gradients")
    read = load_file(path)
    for name, tensor in tensors.items():
        expected = torch.as_tensor(tensor).detach()
        if name == "complex128":
            expected = torch.view_as_real(expected)  # the format has no type for it
        assert torch.equal(read[name], expected), name


def test_a_copy_is_taken_at_the_call():
    ci.profile()
    weight = torch.zeros(50_000_000)
    span = write_blob(["w"], [weight], "weights")
    weight.fill_(1)
    ci.shutdown()
    assert load_file(f".cirron/snapshots/{span}/weights.safetensors")["w"].sum() == 0


def test_names_that_repeat_are_all_kept():
    ci.profile()
    values = [torch.tensor([float(i)]) for i in range(3)]
    span = write_blob(["kernel", "kernel", "kernel#2"], values, "weights")
    ci.shutdown()
    read = load_file(f".cirron/snapshots/{span}/weights.safetensors")
    assert {name: value.item() for name, value in read.items()} == {
        "kernel": 0.0,
        "kernel#2": 1.0,
        "kernel#2#2": 2.0,
    }


def test_what_is_no_memory_is_left_out():
    tensors = {"here": torch.ones(3), "meta": torch.empty(3, device="meta")}
    path, records = write(tensors)
    assert set(load_file(path)) == {"here"}
    assert [(r["mode"], r["blob_uri"] is None) for r in records] == [
        ("full", False),
        ("stats", True),
    ]


def test_an_unusable_directory_loses_the_blob_and_not_the_records(workdir, caplog):
    (workdir / ".cirron").mkdir()
    (workdir / ".cirron/snapshots").write_text("in the way")
    ci.profile(flush_interval=3600)
    write_blob(["w"], [torch.ones(3)], "weights")
    write_blob(["w"], [torch.ones(3)], "weights")
    ci.shutdown()
    records = records_in(Path(".cirron/spool"))
    assert [(r["mode"], r["blob_uri"]) for r in records] == [("stats", None)] * 2
    texts = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(texts) == 1 and "statistics are kept" in texts[0], texts
    assert ci.health()["blob_drop_count"] == 0, "no session, no counters"


def test_without_a_directory_it_is_reported_once(caplog):
    handle = ci.profile(output="none")
    for _ in range(2):
        write_blob(["w"], [torch.ones(3)], "weights")
    ci.flush()
    assert handle.health()["snapshot_count"] == 2
    texts = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(texts) == 1 and "no output directory" in texts[0], texts


def test_a_full_disk(tmp_path):
    point = tmp_path / "tiny"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(point)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr!r}")
    try:
        handle = ci.profile(path=point / "out", flush_interval=3600)
        write_blob(["large"], [torch.ones(50_000_000)], "weights")
        span = write_blob(["small"], [torch.ones(10)], "weights")
        ci.shutdown()
        assert [r["mode"] for r in records_in(point / "out/spool")] in (
            ["stats", "full"],
            ["full", "stats"],
        )
        assert [f.name for f in (point / "out/snapshots").iterdir()] == [span]
        assert handle.health()["blob_drop_count"] == 1
        assert handle.health()["blob_count"] == 1
    finally:
        subprocess.run(["umount", "-l", str(point)], capture_output=True)


KILLED = """
    import time, torch, cirron as ci
    from blob_writing import write_blob
    ci.profile(path={path!r})
    weight = torch.ones(16_000_000)
    print("ready")
    for _ in range(8):
        write_blob(["w"], [weight], "weights")
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_whole_files_only(tmp_path, number):
    for round_ in range(3):
        out = tmp_path / str(round_)
        with RunningPython(KILLED.format(path=str(out)), env=SHARED) as child:
            child.wait_for()
            while len(list(out.glob("snapshots/*/*"))) <= round_:
                time.sleep(0.01)
            child.signal(number)
            assert child.finish()[0] == -number
        files = list(out.glob("snapshots/*/*"))
        for file in files:
            # After SIGTERM there are no further spans, and so no further folders: the blobs that
            # the program goes on to write are weights-2 and so on.
            assert re.fullmatch(r"weights(-\d)?\.safetensors", file.name)
            assert load_file(file)["w"].shape == (16_000_000,)
        if number == signal.SIGKILL:
            assert len(files) < 8, "killed too late to show anything"
        named = [r["blob_uri"] for r in records_in(out / "spool") if r["blob_uri"]]
        assert {urllib.parse.unquote(uri) for uri in named} <= {f"file://{f}" for f in files}


def test_a_fork_leaves_the_writing_to_the_parent(tmp_path):
    run_python(
        """
        import os, sys, torch, cirron as ci
        from blob_writing import write_blob
        ci.profile(path=sys.argv[1])
        span = write_blob(["w"], [torch.ones(20_000_000)], "weights")
        child = os.fork()
        if child == 0:
            ci.shutdown()
            os._exit(0)
        os.waitpid(child, 0)
        ci.shutdown()
        from safetensors.torch import load_file
        assert load_file(f"{sys.argv[1]}/snapshots/{span}/weights.safetensors")["w"].sum() == 2e7
        assert len(os.listdir(f"{sys.argv[1]}/snapshots")) == 1
        """,
        tmp_path,
        env=SHARED,
    )


def test_the_end_of_the_program_writes_what_waits(tmp_path):
    run_python(
        """
        import sys, torch, cirron as ci
        from blob_writing import write_blob
        ci.profile(path=sys.argv[1])
        for _ in range(3):
            write_blob(["w"], [torch.ones(5_000_000)], "weights")
        """,
        tmp_path,
        env=SHARED,
    )
    assert len(list(tmp_path.glob("snapshots/*/weights.safetensors"))) == 3
    assert [r["mode"] for r in records_in(tmp_path / "spool")] == ["full"] * 3


def test_no_memory_for_a_copy_is_reported_and_counted(tmp_path):
    done = run_python(
        """
        import resource, sys, torch, cirron as ci
        from blob_writing import write_blob
        handle = ci.profile(path=sys.argv[1])
        weight = torch.ones(50_000_000)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, limit[1]))
        for _ in range(2):
            write_blob(["w"], [weight], "weights")
        resource.setrlimit(resource.RLIMIT_AS, limit)
        assert handle.health()["blob_drop_count"] == 2, handle.health()
        """,
        tmp_path,
        env=SHARED,
    )
    assert done.stderr.count("could not be copied") == 1, done.stderr
    assert [r["mode"] for r in records_in(tmp_path / "spool")] == ["stats"] * 2


def test_no_thread_for_the_file_leaves_signals_and_statistics(tmp_path):
    """The limit on memory is too small for the stack of another thread."""
    done = run_python(
        """
        import resource, signal, sys, torch, cirron as ci
        from blob_writing import write_blob
        handle = ci.profile(path=sys.argv[1])
        weight = torch.ones(10)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000, limit[1]))
        write_blob(["w"], [weight], "weights")
        resource.setrlimit(resource.RLIMIT_AS, limit)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
        ci.flush()
        assert handle.health()["blob_drop_count"] == 1, handle.health()
        write_blob(["w"], [weight], "weights")
        ci.shutdown()
        """,
        tmp_path,
        env=SHARED,
    )
    assert done.stderr.count("cannot start a thread") == 1, done.stderr
    modes = sorted(r["mode"] for r in records_in(tmp_path / "spool"))
    assert modes == ["full", "stats"], "the next one has a thread"
