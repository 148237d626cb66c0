"""Attaching a gdb to a running process, under a guard that outlives whatever happens to livedbg and to gdb."""

from __future__ import annotations

from livedbg.touch.attach import AttachCost, Attachment, Held

__all__ = ["AttachCost", "Attachment", "Held"]
