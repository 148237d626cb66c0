"""Source lines of the user's own code in stacks, for screens, recordings and reports.

Invariants:
    sources.Y1. A file system that does not answer costs the source lines of a process while it does not, and no stack.
    sources.Y2. Each stack gets the source of at most one frame: the one that is named as the place of the thread.
        How its loop goes on is added to it, and to the innermost Python frame if that is of an installed package: a
        thread that sleeps there may poll. Python's own library is left out: its scheduler sleeps in a loop with ways
        out, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from livedbg.analysis.user_code import Inside
from livedbg.linux import procfs
from livedbg.model import Frame, LoopWay, Stack
from livedbg.session.rulebook import user_code
from livedbg.touch.source import SourceLines, read_source, sourced

if TYPE_CHECKING:
    from livedbg.cpython.loop_source import Sources
    from livedbg.touch.c_loops import CSources

_PATIENCE_S: Final = 10.0
"""For which stacks wait for files; later ones don't wait while a file has not been read."""

_MOST: Final = 1_000
"""Places that are remembered."""


class StackSources:
    """Adds source lines to the stacks of processes; reads are cached.

    A file is not read again: its content when the thread was first seen there counts.
    """

    def __init__(self) -> None:
        self._code = user_code()
        self._known: dict[tuple[int, str, int], SourceLines] = {}
        self._started_ns: dict[int, int] = {}
        self._python_files: dict[int, Sources] = {}
        self._c_loops: dict[int, CSources] = {}
        self._ways: dict[tuple[int, str, int], LoopWay | None] = {}
        self._waiting: dict[int, asyncio.Future[tuple[Stack, ...]]] = {}

    async def added(self, pid: int, stacks: Sequence[Stack]) -> tuple[Stack, ...]:
        """Return the stacks of a process, each with the source lines around its thread's place."""
        before = self._waiting.get(pid)
        if before is not None and not before.done():
            return tuple(stacks)
        work = self._waiting[pid] = asyncio.ensure_future(asyncio.to_thread(self._add, pid, stacks))
        done, _ = await asyncio.wait({work}, timeout=_PATIENCE_S)
        return work.result() if done else tuple(stacks)

    def _add(self, pid: int, stacks: Sequence[Stack]) -> tuple[Stack, ...]:
        return tuple(self._one(pid, stack) for stack in stacks)

    def _one(self, pid: int, stack: Stack) -> Stack:
        place = self._code.frame_of(stack.frames)
        if place is None or not place.file or not place.line:
            return stack
        from livedbg.cpython.loop_source import STANDARD_LIBRARY  # a report of another program does without

        found = sourced(place, self._lines(pid, place.file, place.line))
        at = stack.frames.index(place)
        called = next((frame for frame in stack.frames if frame.language == "python"), place)
        marked = {at: structs.replace(found, loop=self._way(pid, stack.frames[at:]))}
        if called is not place and STANDARD_LIBRARY.search(called.file or "") is None:
            inner = stack.frames.index(called)
            marked[inner] = structs.replace(called, loop=self._way(pid, (called,)))
        return structs.replace(stack, frames=tuple(marked.get(n, frame) for n, frame in enumerate(stack.frames)))

    def _way(self, pid: int, frames: Sequence[Frame]) -> LoopWay:
        """Return how the loop goes on in which the innermost frame is, or the user's code that called it."""
        way = self._way_of_loops(pid, frames)
        pauses = way is not LoopWay.POLLS and frames and self._pauses(pid, frames[0])
        return LoopWay.PAUSES if pauses else way

    def _pauses(self, pid: int, frame: Frame) -> bool:
        """Return whether a frame of Python waits for a flag, in no loop of its own."""
        if frame.language != "python" or not frame.file or not frame.line:
            return False
        if self._way_at(pid, True, frame.file, frame.line) is not None:
            return False
        around = self._python(pid).around(frame.file, frame.line)
        return around is not None and around.pauses

    def _way_of_loops(self, pid: int, frames: Sequence[Frame]) -> LoopWay:
        ends = LoopWay.ONCE
        for number, frame in enumerate(frames):
            inside = Inside.USER if not number else self._code.inside(frame)
            if inside is not Inside.USER or not frame.file or not frame.line:
                unsure = inside in (Inside.PACKAGE, Inside.UNLINED)  # it may poll
                return LoopWay.UNKNOWN if unsure and ends is LoopWay.ONCE else ends
            way = self._way_at(pid, frame.language == "python", frame.file, frame.line)
            if way is LoopWay.ENDS:
                ends = way
            elif way is not None:
                return way
        return ends

    def _way_at(self, pid: int, python: bool, file: str, line: int) -> LoopWay | None:
        key = (pid, file, line)
        if key not in self._ways:
            if len(self._ways) >= _MOST:
                self._ways.clear()
            if python:
                from livedbg.cpython.loop_source import way_of

                loops = self._python(pid).loops(file, line)
                self._ways[key] = way_of(loops, line) if loops is not None else LoopWay.UNKNOWN
            else:
                from livedbg.touch.c_loops import CSources

                self._ways[key] = self._c_loops.setdefault(pid, CSources(pid)).way(file, line)
        return self._ways[key]

    def _python(self, pid: int) -> Sources:
        from livedbg.cpython.loop_source import Sources

        return self._python_files.setdefault(pid, Sources(pid))

    def _lines(self, pid: int, file: str, line: int) -> SourceLines:
        key = (pid, file, line)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = read_source(pid, file, line)
            if known.lines and known.changed_wall_ns > self._start_of(pid) > 0:
                known = known._replace(note=f"{file} was changed after the process started: its lines may be others")
            self._known[key] = known
        return known

    def _start_of(self, pid: int) -> int:
        if pid not in self._started_ns:
            self._started_ns[pid] = 0
            with contextlib.suppress(OSError, ValueError):
                booted = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                self._started_ns[pid] = booted + procfs.read_stat(pid).start_ticks * procfs.CLOCK_TICK_NS
        return self._started_ns[pid]
