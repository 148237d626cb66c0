"""What a user (a panel, a command) can ask of the session. Values only; the session routes them.

A panel never acts on a process or a file itself: it sends one of these.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

__all__ = ["Intent", "OpenLog", "Refresh", "WantStacks"]


class WantStacks(Struct, frozen=True, kw_only=True, tag="want-stacks"):
    """Take stacks now.

    Attributes:
        process: its identifier.
        threads: thread identifiers; empty means all threads of the process.
        native: native frames too (needs gdb for names), not only Python's.
        local_variables: Python local variables too (`py-spy --locals`).
    """

    process: str
    threads: tuple[str, ...] = ()
    native: bool = True
    local_variables: bool = False


class Refresh(Struct, frozen=True, kw_only=True, tag="refresh"):
    """Look at everything again now instead of at the next turn."""


class OpenLog(Struct, frozen=True, kw_only=True, tag="open-log"):
    """Start to read one more log file or directory."""

    path: str


Intent: TypeAlias = WantStacks | Refresh | OpenLog
