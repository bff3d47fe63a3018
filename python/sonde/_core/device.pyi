"""The work of devices without events, and the kernels for NVIDIA GPUs."""

def watch_queue() -> None:
    """From here on the work of a device is followed: scopes with gpu=True get their time there."""

def unwatch_queue() -> None:
    """No longer."""

def begin_work() -> int:
    """A piece of work was handed to the device; its number."""

def end_work(piece: int) -> None:
    """The device has just finished it. On any thread."""

def abandon_work(piece: int) -> None:
    """It will never be known when it, or one before it, was finished."""

def want_kernels(nvrtc: list[str] | None) -> None:
    """Compile the kernels once the program uses a GPU, with NVRTC from one of these paths.

    The likeliest path comes first. None: do not.
    """

def await_kernels(device: int) -> str:
    """Compiles the kernels for this GPU and waits for it; what is wrong, or ``""``.

    Only tests and benches wait. It is not in ``sonde._testing``, because what matters is whether
    the kernels of this very process are in use.
    """

def cuda_events_made() -> int:
    """How many CUDA events the pool of this process has had to create."""
