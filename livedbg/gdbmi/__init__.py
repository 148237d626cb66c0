"""gdb over MI: one asyncio engine, used to unwind stack copies (and, by request only, to attach)."""

from __future__ import annotations

from livedbg.gdbmi.engine import GdbEngine, find_gdb
from livedbg.gdbmi.errors import GdbCommandError, GdbGone, GdbTimeout

__all__ = ["GdbCommandError", "GdbEngine", "GdbGone", "GdbTimeout", "find_gdb"]
