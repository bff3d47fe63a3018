"""Several processes: data parallel ones record the same, sharded ones say which part they have."""

import json
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from spool_files import Spool

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch.distributed is not there", allow_module_level=True)

PROGRAM = """
    import sys
    import cirron as ci, torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ci.profile(path=sys.argv[1], frameworks=["torch"], snapshots="sampled", sample_rate=0.5)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    {wrap}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    loader = DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2)
    for _ in range({epochs}):
        for (x,) in loader:
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    dist.barrier()
    ci.shutdown()
    dist.destroy_process_group()
"""
NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


def run(directory, wrap, epochs=1):
    return run_ranks(directory, textwrap.dedent(PROGRAM).format(wrap=wrap, epochs=epochs))


def run_ranks(directory, code):
    """Two processes; the records of each, by epoch."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    import os

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(directory / str(rank))],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    return [read(directory / str(rank)) for rank in range(2)]


def read(directory: Path):
    spool = Spool(directory / "spool")
    epochs = {}
    for batch in spool.batches:
        for record in batch["snapshots"]:
            index = spool.by_id[record["span_id"]]["index"]
            epochs.setdefault(index, {})[record["tensor_name"]] = record
    return [epochs[index] for index in sorted(epochs)]


def test_data_parallel_ranks_record_the_same(tmp_path):
    wrap = "model = nn.parallel.DistributedDataParallel(model)"
    ranks = run(tmp_path, wrap, epochs=6)
    for epochs in ranks:
        assert len(epochs) == 6
        assert [name for name in epochs[0] if not name.endswith(".grad")] == NAMES
        assert epochs[0]["0.weight.grad"]["attrs"]["taken"] == "optimizer_step"
    stats = [[epoch["0.weight"]["stats"] for epoch in epochs] for epochs in ranks]
    assert stats[0] == stats[1]
    decisions = [[epoch["0.weight"]["attrs"] for epoch in epochs] for epochs in ranks]
    assert decisions[0] == decisions[1]
    assert all(set(attrs) == {"sampled"} for attrs in decisions[0])


def test_shards_say_what_they_are(tmp_path):
    wrap = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    """
    ranks = run(tmp_path, wrap.strip().replace("\n    ", "\n"))
    for rank, (epoch,) in enumerate(ranks):
        for name in ("0.weight", "0.weight.grad"):
            record = epoch[name]
            assert record["shape"] == [3, 4]
            assert record["stats"] is not None
            assert record["attrs"]["shard"] == {
                "rank": rank,
                "world_size": 2,
                "placements": "Shard(0)",
                "global_shape": [6, 4],
            }
        assert sum(epoch["0.weight"]["stats"]["histogram"]["counts"]) == 12
        # One row for two ranks: one of them has it, the other has an empty part.
        assert epoch["2.weight"]["shape"] == [1 - rank, 6]
        assert epoch["2.weight"]["attrs"]["shard"]["global_shape"] == [1, 6]
    assert ranks[0][0]["0.weight"]["stats"] != ranks[1][0]["0.weight"]["stats"]
    json.dumps(ranks)


@pytest.mark.parametrize("original", [False, True])
def test_parameters_of_the_older_fsdp_say_that_they_are_parts(tmp_path, original):
    wrap = (
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
        f"model = FSDP(model, device_id=torch.device('cpu'), use_orig_params={original})"
    )
    for rank, (epoch,) in enumerate(run(tmp_path, wrap)):
        names = [name for name in epoch if not name.endswith(".grad")]
        assert names == (NAMES if original else ["_flat_param"])
        for name in names:
            assert epoch[name]["attrs"]["shard"] == {"rank": rank, "world_size": 2}
            assert epoch[name]["stats"] is not None


def test_the_process_group_is_gone_before_the_epoch_ends(tmp_path):
    code = textwrap.dedent("""
        import sys
        import cirron as ci, torch
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        ci.profile(path=sys.argv[1], frameworks=["torch"])
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(10):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
        with torch.no_grad():
            model[0].bias.to_local().fill_(float("nan"))
        dist.destroy_process_group()
    """)
    ranks = run_ranks(tmp_path, code)
    for rank, (epoch,) in enumerate(ranks):
        assert len(epoch) == 8
        assert all(record["stats"] is not None for record in epoch.values())
        assert epoch["0.weight"]["attrs"]["shard"] == {
            "rank": rank,
            "world_size": 2,
            "placements": "Shard(0)",
            "global_shape": [8, 8],
        }
        assert epoch["0.bias"]["stats"]["nan_count"] == 4
