"""All processes of a command that was started in a session of its own, to end them, whatever groups they are in.

A shell with job control puts each job into a group of its own (setpgid(2)), and launchers of several ranks start each
worker in a session of its own (setsid(2)): a signal to the command's process group reaches neither.

Also waits for and releases a process that asyncio started: a transport that is still open when its event loop has ended
complains on standard error, from a finalizer (asyncio/base_subprocess.py, `__del__`). That happens if the waiter for
the process's end is cancelled.

Invariants:
    family.F1. A signal goes only to a process that was seen to be one of them: each is held by a pidfd (pidfd_open(2)),
        so one that has its number later is another, and so are that one's children.
    family.F3. A process whose start is cancelled is ended, and its transport closed.
    family.F2. A process that is no longer a descendant at a scan, and in another session, is none of them: that is how
        a daemon leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from typing import Any, Final

from livedbg.linux.procfs import child_pids, process_ids, read_stat


class Family:
    """A command's processes."""

    def __init__(self, leader: int, start_ticks: int | None) -> None:
        self._leader = leader
        self._start_ticks = start_ticks
        self._held: dict[int, int] = {}

    def scan(self) -> int:
        """Find new processes; return how many."""
        before = len(self._held)
        if self._is_another():
            return 0
        for pid in process_ids():
            with contextlib.suppress(OSError):  # it is gone
                if pid not in self._held and os.getsid(pid) == self._leader:
                    self._hold(pid)
        below = [self._leader, *(pid for pid, pidfd in self._held.items() if not _ended(pidfd))]
        seen = set(below)
        while below:
            children = [pid for pid in child_pids(below.pop()) if pid not in seen]
            seen.update(children)
            below += children
            for pid in children:
                self._hold(pid)
        return len(self._held) - before

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self._held)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all known processes."""
        for pidfd in self._held.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all known processes have ended; return False on timeout."""
        limit = time.monotonic() + timeout_s
        poll = select.poll()
        left = {pidfd for pidfd in self._held.values() if not _ended(pidfd)}
        for pidfd in left:
            poll.register(pidfd, select.POLLIN)
        while left and (rest_s := limit - time.monotonic()) > 0:
            for pidfd, _ in poll.poll(1000 * rest_s):
                left.discard(pidfd)
                poll.unregister(pidfd)
        return not left

    def close(self) -> None:
        for pidfd in self._held.values():
            os.close(pidfd)
        self._held.clear()

    def _is_another(self) -> bool:
        try:
            return self._start_ticks is not None and read_stat(self._leader).start_ticks != self._start_ticks
        except (OSError, ValueError, IndexError):
            return False  # it is gone, and nobody has its number

    def _hold(self, pid: int) -> None:
        if pid not in self._held:
            with contextlib.suppress(OSError):
                self._held[pid] = os.pidfd_open(pid)


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


_REAPED_S: Final = 0.01  # from its end until asyncio's thread has its exit status


async def begun(*argv: str, **options: Any) -> asyncio.subprocess.Process:
    """Start a process as asyncio.create_subprocess_exec does; if this is cancelled meanwhile, end it.

    asyncio itself would leave it, and its transport open, if it had begun by then.

    Raises:
        OSError: it can't be started.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await starting
            let_go(process)
            await exited(process)
        raise


def let_go(process: asyncio.subprocess.Process) -> None:
    """Close all pipes to a process; kill it if it still runs. The second call does nothing."""
    transport = getattr(process, "_transport", None)  # asyncio has no public way to it
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()


async def exited(process: asyncio.subprocess.Process) -> int:
    """Wait until a process has exited; return its exit code, as `returncode` has it.

    asyncio's own `wait` also waits until nobody holds the other ends of the process's pipes (python/cpython#119710):
    for ever, if a child of it lives on.
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
