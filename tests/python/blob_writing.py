"""Writes raw tensors through a session to a file, as the snapshot of an epoch does."""

from types import SimpleNamespace

from sonde import _core


def write_blob(names, tensors, kind):
    """Takes statistics and a copy now; the file is written later.

    Returns the id of the span they belong to, which is where they are: ``snapshots/<id>/``.
    """
    gradients = kind == "gradients"
    pairs = [
        (name, SimpleNamespace(grad=tensor) if gradients else tensor)
        for name, tensor in zip(names, tensors, strict=True)
    ]
    captured = _core.snapshots.capture(
        [("", pairs)], gradients, None, set(), True, 1, without_values, list
    )
    with _core.scope("blobs"):  # makes sure that the thread has a next number
        sequence = _core.scopes.next_sequence()
        with _core.scope("blob") as span:
            _core.snapshots.submit([(captured, {})], sequence, None, None, "full", False)
    return span.id


def without_values(tensors):
    """Tensors without memory of their own keep only their entry in the catalogue."""
    return [
        (None, {}, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
        for tensor, _ in tensors
    ]
