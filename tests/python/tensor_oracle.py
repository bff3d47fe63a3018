"""The statistics of a tensor in NumPy's extended precision: the expected values of the tests."""

import math

import numpy as np


def expected_edges(low, high):
    if low == high:
        return [low + i / 16.0 for i in range(17)]
    width = high - low
    if math.isinf(width):
        inner = [low * (1 - i / 16.0) + high * (i / 16.0) for i in range(16)]
    else:
        inner = [low + width * (i / 16.0) for i in range(16)]
    return [*inner, high]


def oracle(values):
    finite = values[np.isfinite(values)]
    counts = {
        "count": finite.size,
        "nan_count": int(np.isnan(values).sum()),
        "inf_count": int(np.isinf(values).sum()),
        "zero_count": int((finite == 0).sum()),
        "minus_inf_count": int(np.isneginf(values).sum()),
    }
    if finite.size == 0:
        nothing = dict.fromkeys(("mean", "std", "min", "max", "norm"), 0.0)
        return counts | nothing | {"counts": [0] * 16, "edges": [0.0] * 17}
    low, high = float(finite.min()), float(finite.max())
    edges = expected_edges(low, high)
    bins = np.zeros(finite.size, dtype=int)
    if low != high:
        for edge in edges[1:16]:
            bins += finite >= edge
    wide = finite.astype(np.longdouble)
    mean = wide.sum() / finite.size
    return counts | {
        "mean": float(mean),
        "std": float(np.sqrt(((wide - mean) ** 2).sum() / finite.size)),
        "min": low,
        "max": high,
        "norm": float(np.sqrt((wide**2).sum())),
        "counts": np.bincount(bins, minlength=16).tolist(),
        "edges": edges,
    }
