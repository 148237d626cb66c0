"""Finds who gives what the threads and tasks of a process wait for, in the user's own code (livedbg.cpython.givers)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from livedbg.adapters.python.awaits import INSTALLED, LoopSample
from livedbg.adapters.python.samples import Sample
from livedbg.cpython.call_frames import FrameLocals
from livedbg.cpython.event_loops import LoopTask
from livedbg.cpython.givers import Givers, Place, Sleeper, Wanted, ends_of
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.loop_source import STANDARD_LIBRARY
from livedbg.cpython.objects import Code
from livedbg.cpython.threads import PyFrame, ThreadReader
from livedbg.linux.descriptors import describe
from livedbg.model import ids

Named = Mapping[int, tuple[str, ...]]
"""Ids of givers by the address of what they give."""


class Given(NamedTuple):
    """What threads will give: in their process, and ids of pipes and sockets, by thread."""

    givers: Named = MappingProxyType({})
    into: Mapping[str, Sequence[str]] = MappingProxyType({})


Frames = Sequence[tuple[Code, int | None, Sequence[int]]]
"""Frames of one who sleeps: code, line and slots, innermost first."""

_FORKED: Final = "BaseProcess._bootstrap"
"""The function of multiprocessing that a child begins with."""

_Asleep = tuple[str, Frames]


class ProcessGivers:
    """The givers of one process. Blocking: use it in worker threads, one at a time.

    Args:
        reader: reads its threads; None if the layout is not known.
    """

    def __init__(self, host: str, pid: int, reader: ThreadReader | None) -> None:
        self._host = host
        self._pid = pid
        heap = HeapReader(reader.objects) if reader is not None else None
        self._givers = Givers(heap, reader) if heap is not None and reader is not None else None
        self._locals = FrameLocals(heap) if heap is not None else None
        self._threads: list[_Asleep] = []
        self._tasks: list[_Asleep] = []

    def of_threads(self, sample: Sample) -> Named:
        """Return the givers of what threads wait for, by the address of the condition or queue that they sleep on."""
        waits = {wait.tid: wait for wait in sample.notify_waits}
        pauses = {tid for tid, wait in waits.items() if wait.timed}
        others = {
            tid: one.frames
            for tid, one in sample.threads.items()
            if one.frames and (tid in pauses or (tid not in waits and not _in_library(one.frames[0])))
        }
        self._threads = [
            (
                ids.thread(self._host, self._pid, tid),
                [(one.code, one.code.line(one.offset), one.slots) for one in frames],
            )
            for tid, frames in others.items()
        ]
        said = {wait.address: (wait.of, *wait.label.partition(".")[::2]) for wait in waits.values()}
        wanted = {address: Wanted(of, ends_of(kind, call)) for address, (of, kind, call) in said.items() if of}
        found = self._found(wanted.values())
        return {address: found[one.address] for address, one in wanted.items() if one.address in found}

    def of_tasks(self, sample: LoopSample, name_of: Callable[[LoopTask], str]) -> Named:
        """Return the givers of what tasks wait for."""
        others = {address for address, what in sample.awaits.items() if not what.kind and not what.tasks}
        self._tasks = [
            (name_of(task), [(one.code, one.line, one.slots) for one in task.chain.frames])
            for task in sample.loops.tasks
            if task.address in others
        ]
        waits = (what for what in sample.awaits.values() if what.kind in ("cond", "sem"))
        return self._found(Wanted(what.address, ends_of(what.name, what.label)) for what in waits)

    def into(self) -> Mapping[str, Sequence[str]]:
        """Return the pipes and sockets that threads will write into, as in the last `of_threads`: ids by thread."""
        if self._givers is None or self._locals is None:
            return {}
        found = self._givers.into([_sleeper(*one, self._locals) for one in self._threads])
        return {name: [one for fd in sorted(fds) if (one := self._channel(fd))] for name, fds in found.items()}

    def _channel(self, fd: int) -> str:
        found = describe(self._pid, fd)
        of_pair = found is not None and found.kind in ("pipe", "socket")
        return ids.fd_object(found.kind, self._host, found.number) if found is not None and of_pair else ""

    def _found(self, wanted: Iterable[Wanted]) -> Named:
        known = [one for one in wanted if one.ends]
        if self._givers is None or self._locals is None or not known:
            return {}
        return self._givers.of(known, [_sleeper(*one, self._locals) for one in (*self._threads, *self._tasks)])


def _in_library(frame: PyFrame) -> bool:
    return STANDARD_LIBRARY.search(frame.code.file) is not None


def _sleeper(entity: str, frames: Frames, names: FrameLocals) -> Sleeper:
    places: list[Place] = []
    with suppress(OSError, OverflowError, ValueError):
        for code, line, slots in frames:
            if code.name.endswith(_FORKED):
                break  # what is outside of it, the parent ran
            if line and STANDARD_LIBRARY.search(code.file) is None and INSTALLED.search(code.file) is None:
                places.append(Place(code.file, line, tuple(names.named(code, slots))))
    return Sleeper(entity, tuple(places))
