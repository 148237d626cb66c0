"""The times that livedbg gives gdb at a stopped thread, and itself at one that threw: longer than users wait.

On a busy machine gdb, or livedbg itself, may take seconds for what takes milliseconds, and a test of what a look brings
is not to miss it for that.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from livedbg.adapters.exceptions import catchpoint, stopper
from livedbg.touch import attach, inspector

__all__ = ["LIMITS", "LONG_S"]

LIMITS: Final[tuple[tuple[ModuleType, str], ...]] = (
    (stopper, "_PRELOAD_S"),
    (stopper, "_ATTACH_S"),
    (stopper, "_AT_S"),
    (stopper, "_INSPECT_S"),
    (catchpoint, "_PATIENCE_S"),
    (inspector, "_VARIABLES_S"),
    (attach, "_DETACH_S"),
)
"""Modules, and the names of their limits in seconds."""

LONG_S: Final = 60.0
