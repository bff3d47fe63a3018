"""The work of devices without events, and the kernels for NVIDIA GPUs."""

def watch_queue() -> None:
    """Starts to follow the work of a device: scopes with gpu=True get their device time from it."""

def unwatch_queue() -> None:
    """Ends what ``watch_queue`` began."""

def begin_work() -> int:
    """A piece of work was handed to the device; returns its number."""

def end_work(piece: int) -> None:
    """The device has just finished this piece. May be called on any thread."""

def abandon_work(piece: int) -> None:
    """It will never be known when this piece, or one before it, was finished."""

def want_kernels(nvrtc: list[str] | None) -> None:
    """Compiles the kernels as soon as the program uses a GPU, with NVRTC from one of these paths.

    The likeliest path comes first. None: the kernels are not wanted.
    """
