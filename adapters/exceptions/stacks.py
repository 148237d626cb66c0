"""Stacks of traced calls: the code layout of processes, noted while they live, and the unwound frames.

Invariants:
    exceptions_stacks.B1. Caches are bounded, however many processes, places and calls there are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, TypeAlias

from livedbg.adapters.exceptions.calls import TracedCall
from livedbg.adapters.exceptions.hits import Code, Kind
from livedbg.gdbmi.errors import GdbGone
from livedbg.linux.maps import Mapping
from livedbg.linux.registers import SP
from livedbg.model import Frame
from livedbg.model.errors import LivedbgError
from livedbg.probes.layouts import Layouts
from livedbg.probes.newest import Newest
from livedbg.probes.tracer import ProcessTree
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.helper_process import UnwinderGone
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound

Frames: TypeAlias = tuple[tuple[Frame, ...], bool]
"""Frames, innermost first, and whether they are whole."""

Place: TypeAlias = tuple[int, tuple[int, ...]]
"""Where a call comes from, before it is unwound: what code there is, and the words of its stack that point into it."""

_UNWIND_S: Final = 30.0  # for the stack of one call
_PROCESSES: Final = 64
_PLACES: Final = 4096


class CallStacks:
    """Stacks and code layouts of a process and (`follow`) its children; without a pool nothing is unwound."""

    def __init__(self, pid: int, pool: UnwinderPool | None, *, follow: bool) -> None:
        self._pid = pid
        self._pool = pool
        self._tree = ProcessTree(pid, follow)
        self._layouts = Layouts(pid)
        self._code: Newest[int, tuple[tuple[Mapping, ...], Code]] = Newest(_PROCESSES)
        self._stacks: Newest[Place, Frames | None] = Newest(_PLACES)

    @property
    def possible(self) -> bool:
        """Return whether stacks can be unwound at all."""
        return self._pool is not None

    async def begin(self) -> None:
        """Read the mappings, and have the kernel report changes if permitted."""
        with contextlib.suppress(OSError):  # then what is read now and then has to do
            await asyncio.to_thread(self._layouts.watch, self._threads, follow=self._tree.follow)
        await self.remember()

    def _threads(self) -> list[int]:
        return self._tree.threads() if self._tree.follow else [self._pid]

    async def remember(self) -> None:
        """Note what the process has loaded: after its end it is too late."""
        self._layouts.update()
        self._layouts.keep(await asyncio.to_thread(self._threads))
        with contextlib.suppress(OSError):
            self._layouts.know(self._pid, *await asyncio.to_thread(self._layouts.read, self._pid))

    def mappings(self, pid: int) -> tuple[Mapping, ...]:
        """Return the known mappings of a process, or else its parent's. Thread-safe."""
        return self._layouts.of(pid) or self._layouts.of(self._pid)

    def kind_of(self, traced: TracedCall) -> Kind:
        """Return the kind of a call, before it is unwound."""
        return self._code_of(traced.sample.pid).kind_of(traced)

    def place_of(self, kind: Kind) -> Place:
        """Return the place of a call, equal for children that are copies of one process."""
        return self._code_of(kind.pid).layout, kind.words

    def _code_of(self, pid: int) -> Code:
        if not self._layouts.of(pid):
            self._layouts.update()
        mappings = self.mappings(pid)
        known = self._code.get(pid)
        if known is None or known[0] is not mappings:
            known = self._code[pid] = (mappings, Code(mappings))
        return known[1]

    def close(self) -> None:
        self._layouts.close()

    def known(self, place: Place) -> bool:
        """Return whether calls from there were unwound, or given up."""
        return place in self._stacks

    def of(self, place: Place) -> Frames | None:
        """Return the stack of calls from there; None if it can't be unwound."""
        return self._stacks.get(place)

    async def unwind(self, place: Place, traced: TracedCall) -> Frames | None:
        """Unwind a call, for all later calls from there too."""
        stack = self._stacks[place] = await self._unwound(traced)
        return stack

    async def _unwound(self, traced: TracedCall) -> Frames | None:
        sample = traced.sample
        copy = ThreadCopy(sample.tid, sample.registers, sample.registers[SP], sample.stack)
        assert self._pool is not None
        self._layouts.update()
        try:
            with contextlib.suppress(OSError):  # it ended by what was traced: then as they were
                self._layouts.know(sample.pid, *await asyncio.to_thread(self._layouts.read, sample.pid))
            mappings = self.mappings(sample.pid)
            done = await self._frames(Capture(sample.pid, (copy,), (), mappings))
        except (OSError, LivedbgError):
            return None
        found = done.get(sample.tid)
        return (found.frames, found.whole) if found is not None else None

    async def _frames(self, capture: Capture) -> dict[int, Unwound]:
        """Unwind with a shared unwinder, which others may have dropped; raise LivedbgError on failure."""
        assert self._pool is not None
        like = self._unwinder_pid(capture.pid)
        try:
            return await (await self._pool.of(like)).unwind(capture, _UNWIND_S)
        except (GdbGone, UnwinderGone):
            return await (await self._pool.of(like)).unwind(capture, _UNWIND_S)

    def _unwinder_pid(self, pid: int) -> int:
        """Return whose unwinder to use: the parent's for a child with the same code, so that it needs no gdb."""
        return self._pid if self._code_of(pid).layout == self._code_of(self._pid).layout else pid
