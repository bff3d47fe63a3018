"""Modules that programs written against the Cirron SDK import from ``cirron.core``."""
