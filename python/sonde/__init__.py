"""Sonde, an always-on profiler for machine-learning training.

The engine is C++ (``sonde._core``); this package holds what is process-wide on the Python side: the
session, the hooks, the read-back. Users write against one of the faces, which are packages of
their own on top of this one.
"""

from sonde._core import __version__ as __version__
