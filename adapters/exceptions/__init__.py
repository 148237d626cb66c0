"""Catchpoints that listen: C++ exceptions and calls of functions, by kernel probes, without a stop."""

from livedbg.adapters.exceptions.adapter import ExceptionsAdapter

__all__ = ["ExceptionsAdapter"]
