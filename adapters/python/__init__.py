"""Adapter for Python processes (livedbg.adapters.python.adapter)."""

from livedbg.adapters.python.adapter import PythonAdapter

__all__ = ["PythonAdapter"]
