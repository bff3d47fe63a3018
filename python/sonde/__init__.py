"""Sonde, an always-on profiler for machine-learning training.

The engine is C++ (``sonde._core``); this package holds what is process-wide on the Python side: the
settings, the session, the read-back. Users write against one of the faces, ``cirron``.
"""

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Read when asked for: importlib.metadata alone would cost most of the import budget.
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("sonde")
        except PackageNotFoundError:
            found = "0.0.0+unknown"
        globals()["__version__"] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
