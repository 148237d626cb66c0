"""Waits for and releases a process that asyncio started.

A transport that is still open when its event loop has ended says so on standard error, from a finalizer
(asyncio/base_subprocess.py, `__del__`). That is so where whoever waits for the process's end is cancelled.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

_REAPED_S: Final = 0.01  # from its end until asyncio's thread has its exit status


def let_go(process: asyncio.subprocess.Process) -> None:
    """Close all pipes to a process; one that still runs is killed. Does nothing the second time."""
    transport = getattr(process, "_transport", None)  # asyncio has no public way to it
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()


async def exited(process: asyncio.subprocess.Process) -> int:
    """Wait until a process has exited; its exit code, as `returncode` has it.

    asyncio's own `wait` also waits until nobody holds the other ends of the process's pipes (python/cpython#119710):
    for ever, where a child of it lives on.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:  # reaped
        pass
    else:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
    while process.returncode is None:  # noqa: ASYNC110 - nothing notifies
        await asyncio.sleep(_REAPED_S)
    return process.returncode
