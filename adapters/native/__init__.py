"""Native stacks of blocked threads, without a stop: copies unwound in a gdb that never attaches."""

from __future__ import annotations

from livedbg.adapters.native.adapter import NativeAdapter

__all__ = ["NativeAdapter"]
