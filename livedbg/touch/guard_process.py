"""Livedbg's end of a guard (livedbg.touch.guard): starts it, holds its pipe, reports when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.linux.family import begun
from livedbg.linux.procfs import command_line, read_stat
from livedbg.model.errors import LivedbgError
from livedbg.touch.config import refuse_touch

_PROGRAM: Final = Path(__file__).with_name("guard.py")
_ARGV: Final = (sys.executable, "-I", "-S", _PROGRAM.name)  # without the folder: `pkill -f livedbg` is not to hit it
_START_S: Final = 30.0  # nothing is touched before: a busy machine may take its time
_END_S: Final = 5.0
_REPORTS: Final = (b"gone", b"fine", b"woken")


class GuardMissing(LivedbgError):
    """The guard could not be started, so nothing may be touched."""


def is_guard(pid: int) -> bool:
    """Return whether a child of ours is a guard; False if it is gone."""
    try:
        return _PROGRAM.name in command_line(pid)
    except OSError:
        return False


@contextlib.contextmanager
def glance_guarded(target: int) -> Iterator[None]:
    """Run a guard over the threads that this process traces, for as long as the block runs.

    Without one, a glance is as safe, but for one case: livedbg is stopped in the part of a millisecond in which a
    thread is stopped. So where none can be started the block runs all the same.
    """
    process: subprocess.Popen[bytes] | None = None
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            [*_ARGV, "glance", str(target), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=_PROGRAM.parent,
        )
    if process is None:
        yield
        return
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        select.select([process.stdout], [], [], _START_S)  # it writes `ready`
        yield
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # it is stopped
            process.kill()
            process.wait()


class Guard:
    """A running guard, made by `start`.

    Args:
        process: its process, which has written `ready`.
        since_ticks: start of the touch, in clock ticks since boot.
    """

    def __init__(self, process: asyncio.subprocess.Process, since_ticks: int) -> None:
        self._process = process
        self.pid = process.pid
        self.since_ticks = since_ticks

    @classmethod
    async def start(cls, target: int, start_ticks: int, gdb: int, since_ticks: int = 0) -> Guard:
        """Start a guard and wait until it watches.

        Args:
            start_ticks: its start time, so that a reused pid is noticed.
            since_ticks: of the guard that it replaces.

        Raises:
            TouchRefused: touches are forbidden on this box.
            GuardMissing: it doesn't start, or the target is gone.
        """
        if not since_ticks:  # else it watches over a touch that is there already
            refuse_touch(None, "This attaches a debugger")
        words = [str(number) for number in (target, start_ticks, gdb, os.getpid(), since_ticks)]
        try:
            process = await begun(
                *_ARGV,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                cwd=_PROGRAM.parent,
            )
        except OSError as error:
            raise GuardMissing(f"The guard can't be started: {error.strerror}.", "", "guard-missing") from None
        assert process.stdout is not None
        answer = b""
        try:
            async with asyncio.timeout(_START_S):
                answer = await process.stdout.readline()
        except TimeoutError:
            pass
        if answer != b"ready\n":
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # nothing was touched yet
            await process.wait()
            raise GuardMissing("The guard did not start, so gdb was not attached.", "", "guard-missing")
        return cls(process, since_ticks or _started(process.pid))

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> None:
        await self._process.wait()

    async def release(self) -> bool:
        """Tell the guard that gdb has detached: it checks once more and ends.

        Returns:
            True if the guard reported its action: else it was killed, and nobody has checked the target.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(b"q")
            await process.stdin.drain()
        answer = b""
        try:
            async with asyncio.timeout(_END_S):
                answer = await process.stdout.read()
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        process.stdin.close()
        return answer.strip() in _REPORTS


def _started(pid: int) -> int:
    try:
        return read_stat(pid).start_ticks
    except OSError:
        return 0
