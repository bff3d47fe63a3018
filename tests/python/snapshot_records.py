"""The snapshot records that a session has written, by epoch and tensor."""

import math

import cirron as ci
from spool_files import Spool

SNAPSHOT_KEYS = ["id", "span_id", "tensor_name", "shape", "dtype", "mode", "stats", "blob_uri",
                 "ts_ns", "attrs"]  # fmt: skip


def records(directory):
    """Ends the session. A list of epochs in order: each a dict from tensor to record.

    Every epoch that has snapshots is a span called epoch, and has each tensor once.
    """
    ci.shutdown()
    spool = Spool(directory)
    epochs = {}
    ids = set()
    for batch in spool.batches:
        for record in batch["snapshots"]:
            assert [key for key in record if key in SNAPSHOT_KEYS] == SNAPSHOT_KEYS
            assert record["id"] not in ids
            ids.add(record["id"])
            span = spool.by_id[record["span_id"]]
            assert span["name"] == "epoch"
            found = epochs.setdefault(span["id"], {})
            assert record["tensor_name"] not in found, "captured twice"
            found[record["tensor_name"]] = record
    return [epochs[each] for each in sorted(epochs, key=lambda id: spool.by_id[id]["start_ns"])]


def weights(epoch):
    return [name for name in epoch if not name.endswith(".grad")]


def gradients(epoch):
    return {name: epoch[name] for name in epoch if name.endswith(".grad")}


def places(epoch):
    """Where its gradients were taken."""
    return {record["attrs"]["taken"] for record in gradients(epoch).values()}


def norm(record):
    return record["stats"]["norm"]


def same(record, tensor):
    """Its statistics are those of this tensor."""
    stats = record["stats"]
    values = tensor.detach().double().reshape(-1)
    return (
        math.isclose(stats["norm"], values.norm().item(), rel_tol=1e-9, abs_tol=1e-12)
        and math.isclose(stats["mean"], values.mean().item(), rel_tol=1e-9, abs_tol=1e-12)
        and stats["min"] == values.min().item()
        and stats["max"] == values.max().item()
        and sum(stats["histogram"]["counts"]) == values.numel()
    )
