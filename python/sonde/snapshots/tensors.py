"""Tensors that are not plain memory of this process, made into something that can be measured.

| tensor | measured | attributes |
|---|---|---|
| DTensor (FSDP2) | its local shard | ``shard``: rank, world_size, placements, global_shape |
| a parameter of FSDP 1 | as it lies here | ``shard``: rank, world_size |
| sparse | the stored values, coalesced | ``layout``, ``stored`` |
| quantised | its dequantised values | ``quantized``: true |
| meta, fake, not yet initialised, offloaded | nothing | ``unavailable``: which of them |
"""

from __future__ import annotations

import sys

from sonde import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # What to measure (None: nothing), attributes, dtype, shape.
    Resolved = tuple[Any, dict[str, object], str, list[int]]


UNAVAILABLE = _core.attrs.UNAVAILABLE

# Rank and size of the process group when it last existed.
_last_ranks: dict[str, object] = {"rank": 0, "world_size": 1}


def resolve(tensor: Any, sharded: bool, offloaded: bool) -> Resolved:
    """Never raises, so that one odd tensor does not cost the others their records."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return _on_host(tensor)
    try:
        return _resolve(torch, tensor, sharded, offloaded)
    except Exception as error:
        reason: dict[str, object] = {
            UNAVAILABLE: f"{type(tensor).__name__}: {type(error).__name__}"
        }
        return None, reason, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)


def _resolve(torch: Any, tensor: Any, sharded: bool, offloaded: bool) -> Resolved:
    attrs: dict[str, object] = {}
    dtype = str(tensor.dtype).removeprefix("torch.")
    if _has_base(tensor, "UninitializedTensorMixin"):
        return None, {UNAVAILABLE: "uninitialized"}, dtype, []
    if _has_base(tensor, "DTensor"):
        value = _local(torch, tensor, attrs)
    else:
        value = tensor.detach()
        if sharded:
            attrs["shard"] = _ranks(torch)
    shape = list(value.shape)
    if _has_base(value, "FakeTensor"):
        return None, attrs | {UNAVAILABLE: "fake"}, dtype, shape
    if value.device.type == "meta":
        return None, attrs | {UNAVAILABLE: "offloaded" if offloaded else "meta"}, dtype, shape
    if value.is_quantized:
        attrs["quantized"] = True
        value = value.dequantize()
    if value.layout is not torch.strided:
        attrs["layout"] = str(value.layout).removeprefix("torch.")
        value = _stored(torch, value, attrs)
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    value = value.resolve_neg()
    if type(value) not in (torch.Tensor, torch.nn.Parameter) and _is_wrapper(value):
        if not hasattr(type(value), "dequantize"):
            return None, attrs | {UNAVAILABLE: type(value).__name__}, dtype, shape
        attrs["quantized"] = True
        value = value.dequantize()
    return value, attrs, dtype, shape


def _on_host(tensor: Any) -> Resolved:
    """A tensor of another framework, on another device."""
    dtype = getattr(getattr(tensor, "dtype", None), "name", "unknown")
    try:
        import numpy

        array = numpy.asarray(tensor)
    except Exception as error:
        return None, {UNAVAILABLE: type(error).__name__}, dtype, []
    return array, {}, dtype, list(array.shape)


def _has_base(tensor: Any, name: str) -> bool:
    return any(base.__name__ == name for base in type(tensor).__mro__)


def _is_wrapper(tensor: Any) -> bool:
    """Whether it wraps other tensors and has no memory itself."""
    try:
        return bool(tensor.numel()) and tensor.data_ptr() == 0
    except RuntimeError:
        return True


def _local(torch: Any, tensor: Any, attrs: dict[str, object]) -> Any:
    """Does not ask the process group, which may be gone before the epoch ends."""
    mesh, placements = tensor.device_mesh, tensor.placements
    if not all(type(placement).__name__ == "Replicate" for placement in placements):
        attrs["shard"] = {
            "rank": _rank(torch, mesh),
            "world_size": mesh.size(),
            "placements": ",".join(_placement(placement) for placement in placements),
            "global_shape": list(tensor.shape),
        }
    local = tensor._local_tensor.detach()
    wait = getattr(local, "wait", None)  # a collective may still be running
    return local if wait is None else wait()


def _rank(torch: Any, mesh: Any) -> int:
    if torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    place = mesh.get_coordinate()  # known since the mesh was made
    return -1 if place is None else int(mesh.mesh[tuple(place)])


def _placement(placement: Any) -> str:
    name = type(placement).__name__
    dim = getattr(placement, "dim", None)
    return name if dim is None else f"{name}({dim})"


def _ranks(torch: Any) -> dict[str, object]:
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        _last_ranks.update(rank=group.get_rank(), world_size=group.get_world_size())
    return dict(_last_ranks)


def _stored(torch: Any, value: Any, attrs: dict[str, object]) -> Any:
    if value.layout is torch.sparse_coo:
        value = value.coalesce()
    elif value.layout is torch._mkldnn:
        return value.to_dense()
    values = value.values()
    attrs["stored"] = values.numel()
    return values
