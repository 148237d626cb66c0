"""Starts the unwinding process and sends it requests.

LivedbgError
├── UnwinderGone   it ended, or can't be started
└── UnwindTimeout  it did not answer in time

Invariants:
    helper_process.P1. Every request gets an answer or an error within its time limit; a process that has not answered
        in time is killed, and whoever asks next gets a fresh one.
    helper_process.P2. One request at a time: who comes meanwhile waits, and the wait counts for the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import msgspec

from livedbg.linux import procfs
from livedbg.linux.family import begun, exited, let_go
from livedbg.linux.registers import MACHINE
from livedbg.model.errors import LivedbgError
from livedbg.text.typed import ready
from livedbg.unwind.wire import LENGTH, MOST_BYTES, Reply, Request, packed


class UnwinderGone(LivedbgError):
    """The unwinding process ended, or can't be started."""


class UnwindTimeout(LivedbgError):
    """The unwinding process did not answer in time."""


_START_S: Final = 60.0
_END_S: Final = 10.0  # from the end of its output to its own
_PROGRAM: Final = (
    "import sys; sys.modules['typing_extensions'] = None; "  # msgspec asks it first for what typing has: 6 ms
    "from livedbg.unwind.helper import main; main(int(sys.argv[1]))"
)
_PACKAGES: Final = ("livedbg", "msgspec", "drgn")  # all that it uses
_SERVERS: Final = "DEBUGINFOD_URLS"  # of debug information: none is asked
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})


def usable() -> bool:
    """Return whether drgn is installed and this machine is supported."""
    return os.uname().machine == MACHINE and importlib.util.find_spec("drgn") is not None


def _folders() -> str:
    """Return where the helper finds its packages: Python's search for all others (`site`) is a third of its start."""
    specs = filter(None, map(importlib.util.find_spec, _PACKAGES))
    return os.pathsep.join(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in specs if spec.origin))


class HelperProcess:
    """A helper process that unwinds stacks."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._used_s = 0.0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def cpu_s(self) -> float:
        """CPU time used, in seconds; after its end the last known value."""
        if self.alive and self.pid is not None:
            with contextlib.suppress(OSError):
                self._used_s = procfs.read_stat(self.pid).cpu_ticks * procfs.CLOCK_TICK_NS / 1e9
        return self._used_s

    @property
    def crashed(self) -> bool:
        """True if the helper crashed by a fault of its own."""
        code = 0 if self._process is None else self._process.returncode or 0
        return -code in _CRASHES

    async def start(self) -> None:
        """Start the process.

        Raises:
            UnwinderGone: it can't be started, or has no drgn.
            UnwindTimeout: it does not begin in time.
        """
        env = {name: value for name, value in os.environ.items() if name != _SERVERS}
        argv = (sys.executable, "-S", "-P", "-c", _PROGRAM, str(os.getpid()))
        try:
            self._process = await begun(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=env | {"PYTHONPATH": _folders()},
            )
        except OSError as error:
            raise UnwinderGone(f"{sys.executable} can't be started: {error.strerror}.", "", "unwinder-gone") from None
        async with self._lock:
            hello = await self._within(_START_S, self._answer())
        if hello.error:
            await self.close()
            raise UnwinderGone(f"drgn can't be used: {hello.error}.", "pip install drgn", "unwinder-gone")

    async def ask(self, request: Request, limit_s: float) -> Reply:
        """Have a capture unwound.

        Raises:
            UnwindTimeout: it took longer; the process is killed.
            UnwinderGone: it ended.
        """
        end = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._lock.acquire()
        except TimeoutError:
            raise _too_late(limit_s) from None
        try:
            return await self._within(max(0.0, end - time.monotonic()), self._asked(request))
        finally:
            self._lock.release()

    async def close(self) -> None:
        if self._process is not None:
            await self._kill()

    async def _asked(self, request: Request) -> Reply:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise self._gone()
        try:
            process.stdin.write(packed(request))
            await process.stdin.drain()
        except OSError:
            await exited(process)
            raise self._gone() from None
        return await self._answer()

    async def _answer(self) -> Reply:
        assert self._process is not None and self._process.stdout is not None
        try:
            (size,) = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))
            if size <= MOST_BYTES:
                return msgspec.msgpack.decode(await self._process.stdout.readexactly(size), type=ready(Reply))
        except (asyncio.IncompleteReadError, msgspec.DecodeError, OSError):
            pass
        with contextlib.suppress(TimeoutError):  # it ends by itself: `kill` would take its exit status from asyncio
            async with asyncio.timeout(_END_S):
                await exited(self._process)
        await self._kill()
        raise self._gone()

    async def _within(self, limit_s: float, answer: Coroutine[None, None, Reply]) -> Reply:
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            await self._kill()
            raise _too_late(limit_s) from None
        except asyncio.CancelledError:  # its answer would be taken for the next one's
            await self._kill()
            raise

    def _gone(self) -> UnwinderGone:
        code = 0 if self._process is None else self._process.returncode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else "has ended"
        return UnwinderGone(f"The unwinding process livedbg-unwind {how}.", "", "unwinder-gone")

    async def _kill(self) -> None:
        process = self._process
        assert process is not None
        if process.returncode is None:
            _ = self.cpu_s
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await exited(process)
        let_go(process)


def _too_late(limit_s: float) -> UnwindTimeout:
    return UnwindTimeout(f"The stacks were not unwound within {limit_s:g} s.", "", "unwind-slow")
