"""The statistics, computed by torch, for memory that no kernel of ours can read.

The numbers are those of the kernels: float64 throughout where the device has it, the same edges,
exact counts. Everything stays on the device until all tensors are done; then there is one transfer.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Numbers(NamedTuple):
    """The statistics of one tensor. ``_core`` reads them by these names.

    ``_measure`` returns them in this order: those that are floats, then those that are counts.
    """

    mean: float
    std: float
    min: float
    max: float
    norm: float
    finite_count: int
    nan_count: int
    inf_count: int
    zero_count: int
    minus_inf_count: int
    counts: list[int]


BINS = 16
CHUNK = 1 << 24  # elements converted at a time


def measure(tensors: list[Any]) -> list[Numbers]:
    """The statistics of tensors of one device, none of them sparse or quantised."""
    import torch

    if not tensors:
        return []
    device = tensors[0].device
    wide = torch.float32 if device.type == "mps" else torch.float64
    with torch.no_grad():
        found = [_measure(torch, tensor.detach(), wide) for tensor in tensors]
        reals = torch.stack([reals for reals, _ in found]).cpu().tolist()
        counts = torch.stack([counts for _, counts in found]).cpu().tolist()
    return [_numbers(real, count) for real, count in zip(reals, counts, strict=True)]


def _numbers(reals: list[float], counts: list[int]) -> Numbers:
    mean, std, low, high, norm = reals if counts[0] else [0.0] * 5
    count, nan, inf, zero, minus_inf, *bins = counts
    return Numbers(mean, std, low, high, norm, count, nan, inf, zero, minus_inf, bins)


def _measure(torch: Any, tensor: Any, wide: Any) -> tuple[Any, Any]:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    chunks = tensor.reshape(-1).split(CHUNK) if tensor.numel() else ()
    device = tensor.device
    zero = torch.zeros((), dtype=wide, device=device)
    low, high = zero + float("inf"), zero - float("inf")
    total = zero
    count, nan, inf, none, below = (
        torch.zeros((), dtype=torch.int64, device=device) for _ in range(5)
    )
    for chunk in chunks:
        values = _widened(torch, chunk, wide)
        finite = torch.isfinite(values)
        count = count + finite.sum()
        nan = nan + torch.isnan(values).sum()
        inf = inf + torch.isinf(values).sum()
        none = none + (values == 0).sum()
        below = below + torch.isneginf(values).sum()
        low = torch.minimum(low, torch.where(finite, values, float("inf")).amin())
        high = torch.maximum(high, torch.where(finite, values, float("-inf")).amax())
        total = total + torch.where(finite, values, 0).sum()
    mean = total / count
    largest = torch.maximum(low.abs(), high.abs())
    # Squares of float64 may not fit into float64, nor those of float32 and bfloat16 into float32.
    fits = wide == torch.float64 and tensor.dtype != torch.float64
    scale = zero + 1.0 if fits else torch.where(largest > 0, largest, 1.0)
    constant = low == high
    edges = _edges(torch, low, high)[1:BINS].contiguous()
    deviations = squares = zero
    counts = torch.zeros(BINS, dtype=torch.int64, device=device)
    for chunk in chunks:
        values = _widened(torch, chunk, wide)
        finite = torch.isfinite(values)
        values = torch.where(finite, values, mean)
        deviations = deviations + ((values - mean) / scale).square().sum()
        squares = squares + torch.where(finite, values / scale, 0).square().sum()
        bins = torch.bucketize(values, edges, right=True)
        bins = torch.where(constant | ~finite, 0, bins)
        counts = counts.scatter_add(0, bins, finite.to(torch.int64))
    std = torch.where(constant, 0.0, (deviations / count).sqrt() * scale)
    mean = torch.where(constant, low, mean)
    reals = torch.stack([mean, std, low, high, squares.sqrt() * scale])
    return reals, torch.cat([torch.stack([count, nan, inf, none, below]), counts])


def _widened(torch: Any, chunk: Any, wide: Any) -> Any:
    if chunk.dtype.itemsize == 1 and chunk.dtype.is_floating_point:
        chunk = chunk.to(torch.float32)  # float8 converts to few types
    return chunk.to(wide)


def _edges(torch: Any, low: Any, high: Any) -> Any:
    """The 17 edges of the histogram, by the formula of the kernels."""
    part = torch.arange(BINS + 1, dtype=low.dtype, device=low.device) / BINS
    width = high - low
    edges = torch.where(torch.isinf(width), low * (1 - part) + high * part, low + width * part)
    return torch.where(low == high, low + part, edges)
