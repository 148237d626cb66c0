"""Releases a process that asyncio started.

A transport that is still open when its event loop has ended says so on standard error, from a finalizer
(asyncio/base_subprocess.py, `__del__`). That is so where whoever waits for the process's end is cancelled.
"""

from __future__ import annotations

import asyncio

__all__ = ["let_go"]


def let_go(process: asyncio.subprocess.Process) -> None:
    """Close all pipes to a process; one that still runs is killed. Does nothing the second time."""
    transport = getattr(process, "_transport", None)  # asyncio has no public way to it
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()
