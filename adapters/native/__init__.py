"""Native stacks of blocked threads, without a stop: copies that are unwound in another process."""

from __future__ import annotations

from livedbg.adapters.native.adapter import NativeAdapter

__all__ = ["NativeAdapter"]
