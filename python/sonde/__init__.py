"""Sonde, an always-on profiler for machine-learning training.

The engine is C++ (``sonde._core``); this package holds what is process-wide on the Python side: the
settings, the session, the read-back. Users write against one of the faces, ``cirron``.
"""

from sonde._core import __version__ as __version__
