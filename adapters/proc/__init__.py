"""Adapter for Linux /proc (livedbg.adapters.proc.adapter)."""

from livedbg.adapters.proc.adapter import ProcAdapter

__all__ = ["ProcAdapter"]
