"""Scan the runtimes of a session's processes, and publish operations that make no progress.

Lines of instructions come from the debug information of a dispatch's library in the module's file. The loader copies a
library's segments only, so its debug information is in the module's file: an ELF image somewhere in it, equal to that
in memory. IREE's compiler writes lines of operations only if it dumps the executables
(`--iree-hal-dump-executable-files-to`): lines of the dumped sources. Otherwise all instructions have the line of the
function and no file, and nothing is reported.

Invariants:
    iree_lines.I1. An image is used only if its code is that in memory, byte by byte.
"""

from __future__ import annotations

import asyncio
import math
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.iree.dispatch_graph import DispatchGraph, Dumped, behind
from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.adapters.iree.live.libraries import Library
from livedbg.adapters.iree.live.loops import Loop, Loops, OnStack, Sampled, dispatches_on_stacks, sleeps
from livedbg.adapters.iree.live.shot import Reader, Shot
from livedbg.adapters.iree.live.view import Shown, View
from livedbg.adapters.iree.live.waits import ends_by_itself, is_own, is_worker, outsiders_of
from livedbg.linux import memory, target_files
from livedbg.linux.maps import Mapping as Mapped
from livedbg.linux.maps import parse_maps
from livedbg.model import Process, Task, TaskState, ThreadState, ids
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Context, until
from livedbg.session.pacing import CpuCredit, timed
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.sanitize import clean_line

_MAGIC: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<40xQ10xHH2x")  # section headers at 40, their size at 58 and count
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _EXECUTE = 1, 1
_MOST_BYTES: Final = 64 << 20  # of a module's file
_LARGEST: Final = 16 << 20  # of an image
_MOST_FILES: Final = 8
_OPTION: Final = b"--module="
_BASE: Final = 1 << 32  # where images lie for drgn


class Lines:
    """Source lines of one process's dispatches."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._images: dict[tuple[int, str], bytes | None] = {}
        self._lines: dict[tuple[str, int, int], str] = {}

    def at(self, library: Library, address: int, mappings: Sequence[Mapped]) -> str:
        """Return `FILE:LINE` of an instruction, "" if not known; raise OSError if the process can't be read."""
        place = (library.name, library.start, address)
        if place not in self._lines:
            key = (library.start, library.name)
            if key not in self._images:
                self._images[key] = next(_images(self._pid, library, mappings), None)
            image = self._images[key]
            self._lines[place] = _line(image, address - library.start) if image is not None else ""
        return self._lines[place]


def _images(pid: int, library: Library, mappings: Sequence[Mapped]) -> Iterator[bytes]:
    """Yield the images in a process's module files that have the code of a library."""
    for path in _files(pid, mappings):
        try:
            with target_files.open_binary(path) as file:
                data = file.read(_MOST_BYTES)
        except OSError:
            continue
        at = data.find(_MAGIC)
        while at >= 0:
            image = _image(data, at)
            if image is not None and _is_in_memory(pid, library, image):
                yield image
            at = data.find(_MAGIC, at + 1)


def _files(pid: int, mappings: Sequence[Mapped]) -> list[Path]:
    """Return module files: mapped ones, and those of the command line."""
    root = Path(f"/proc/{pid}/root")
    found = [root / one.path.lstrip("/") for one in mappings if one.path.endswith(".vmfb")]
    for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
        name = os.fsdecode(word[len(_OPTION) :]) if word.startswith(_OPTION) else ""
        if name:
            found.append(root / name.lstrip("/") if name.startswith("/") else Path(f"/proc/{pid}/cwd") / name)
    return list(dict.fromkeys(found))[:_MOST_FILES]


def _image(data: bytes, at: int) -> bytes | None:
    if at + 64 > len(data):
        return None
    sections, size, count = _HEADER.unpack_from(data, at)
    end = sections + size * count
    return data[at : at + end] if 64 < end <= min(_LARGEST, len(data) - at) else None


def _is_in_memory(pid: int, library: Library, image: bytes) -> bool:
    """Return whether its code is that of the library (I1)."""
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    if table + count * _PROGRAM.size > len(image):
        return False
    segments = (_PROGRAM.unpack_from(image, table + number * _PROGRAM.size) for number in range(count))
    code = [one for one in segments if one[0] == _PT_LOAD and one[1] & _EXECUTE]
    if not code or any(library.start + one[3] + one[5] > library.end for one in code):
        return False
    try:
        return all(memory.read(pid, library.start + one[3], one[5]) == image[one[2] : one[2] + one[5]] for one in code)
    except (ProcessLookupError, PermissionError):
        raise
    except OSError:
        return False


def _line(image: bytes, address: int) -> str:
    """Return the line of an instruction by the image's debug information."""
    try:
        import drgn  # not on every platform
    except ImportError:
        return ""
    file = os.memfd_create("image")
    try:
        os.write(file, image)
        program = drgn.Program(drgn.host_platform)
        program.set_enabled_debug_info_finders(())
        module = program.extra_module("image", 0, create=True)
        module.address_range = (_BASE, _BASE + _LARGEST)
        module.try_file("image", fd=os.dup(file), force=True)
        for frame in program.stack_trace_from_pcs([_BASE + address + 1]):  # drgn takes one off: a return address
            path, line, _ = frame.source()
            if line > 0 and path.rpartition("/")[2] not in ("", "-"):
                return clean_line(f"{path.rpartition('/')[2]}:{line}")
    except (LookupError, ValueError, OSError):
        return ""
    finally:
        os.close(file)
    return ""


def with_graph(graph: DispatchGraph, shown: Shown) -> Shown:
    """Add the graph's tasks and edges behind each running dispatch."""
    dispatches = {name: task for name, task in shown.tasks.items() if task.kernel and dispatch_facts(task).dispatch}
    counts = Counter(task.kernel for task in dispatches.values())
    known = {task.kernel: name for name, task in dispatches.items() if task.kernel and counts[task.kernel] == 1}
    tasks, edges = dict(shown.tasks), dict.fromkeys(shown.edges)
    for task in dispatches.values():
        if task.state is TaskState.RUNNING and task.kernel:
            found = behind(graph, task, task.kernel, None, known)
            tasks |= {one.id: one for one in found.tasks}
            edges |= dict.fromkeys(found.edges)
    return shown._replace(tasks=tasks, edges=tuple(edges))


_SHARE: Final = 0.01  # of a core that looks may take
_BURST_S: Final = 0.4  # CPU time that may come at once: what one look has found is shown when a second one has too
_LEAST_S: Final = 1.0  # between two looks ...
_MOST_S: Final = 15.0  # ... and at most
_STACKS_S: Final = 10.0  # how long such a session waits for stacks, on a busy machine
_SAMPLES_S: Final = 3.0  # between two times that workers are sampled
_NEEDED: Final = "livedbg launch --recipe iree-replay -- COMMAND   (the runtime records what it queues)"


class _Watched(Struct):
    process: Process
    reader: Reader
    view: View
    loops: Loops
    lines: Lines
    shown: Publisher
    looping: dict[int, Loop] = field(default_factory=dict)
    sampled_s: float = -math.inf
    in_callers: str = ""


class LiveWatch:
    """The runtimes of one session, with the dispatch graph and sources that the arguments return."""

    def __init__(
        self,
        statuses: Statuses,
        graph: Callable[[], DispatchGraph | None] = lambda: None,
        sources: Callable[[], Mapping[str, Dumped]] = dict,
    ) -> None:
        self._statuses = statuses
        self._graph = graph
        self._sources = sources
        self._watched: dict[str, _Watched] = {}
        self._credit = CpuCredit(_SHARE, _BURST_S)
        self._looked_s = time.monotonic()

    async def sampled(self, context: Context) -> bool:
        """Prepare the second scan of a session that samples once; return whether there is a runtime."""
        if self._watched:
            await self._stacks(context)
            for watched in self._watched.values():
                await self._sample(watched, context)
        return bool(self._watched)

    async def _stacks(self, context: Context) -> None:
        """Wait for a stack of each running thread: it shows its dispatch, or that it may signal.

        A worker that sleeps meanwhile has ended its dispatch, and may never get one. If a semaphore or an operation has
        changed, no stack is waited for: a thread without one may do anything.
        """
        idle, moving = set[str](), set[str]()

        def seen(snapshot: Snapshot) -> bool:
            moving.update(name for name, one in self._watched.items() if name not in moving and one.reader.moved())
            missing = [
                thread
                for thread in snapshot.threads.values()
                if thread.process in self._watched and thread.process not in moving
                if not thread.exited and thread.id not in snapshot.stacks
                if not is_own(thread.name) or (thread.state is ThreadState.RUNNING and thread.id not in idle)
            ]
            own = (thread for thread in missing if is_own(thread.name))
            idle.update(thread.id for thread in own if sleeps(_number(thread.process), thread.tid))
            return all(thread.id in idle for thread in missing)

        if context.request.stacks != "none":
            await until(context, seen, _STACKS_S)

    async def look(self, context: Context, processes: Sequence[Process]) -> float:
        """Scan each process; return the pause until the next scan."""
        alive = {process.id: process for process in processes}
        for name in self._watched.keys() - alive.keys():
            context.emit(*self._watched.pop(name).shown.clear(context.stamp()))
        spent_s = 0.0
        for process in processes:
            watched = self._watched.get(process.id)
            if watched is None:
                prefix = str(process.pid) if len(processes) > 1 else ""
                view = View(context.request.host, process, prefix)
                watched = self._watched[process.id] = _Watched(
                    process,
                    Reader(process.pid),
                    view,
                    Loops(process.pid),
                    Lines(process.pid),
                    Publisher(f"iree/{process.id}"),
                )
            try:
                shot, cost = await asyncio.to_thread(timed, watched.reader.look)
            except OSError:
                continue  # gone, or not ours to look at: the process adapter says so
            spent_s += cost.cpu_s
            if shot is not None:
                await self._take(watched, shot, context)
        now_s = time.monotonic()
        self._credit.passed(now_s - self._looked_s)
        self._credit.spend(spent_s)
        self._looked_s = now_s
        return max(_LEAST_S, min(_MOST_S, self._credit.wait_s()))

    async def _take(self, watched: _Watched, shot: Shot, context: Context) -> None:
        snapshot, process = context.snapshot(), watched.process
        watched.view.take(shot, time.monotonic_ns())
        watched.in_callers = _in_callers(process, shot, snapshot)
        running = _running(watched, snapshot)
        if watched.view.still(time.monotonic_ns()) or context.request.once:
            await self._sample(watched, context)
        looping = {
            one.thread: loop for one in running if (loop := watched.looping.get(_number(one.thread))) is not None
        }
        lines = await asyncio.to_thread(_lines, watched, running)
        running = [_sampled(one, watched.loops.sampled, lines) for one in running]
        waiting: dict[bool, set[str]] = {True: set(), False: set()}
        for wait in shot.host:
            ends = ends_by_itself(wait.point, shot.waits, shot.operations)
            waiting[ends].add(ids.thread(context.request.host, process.pid, wait.tid))
        outsiders = outsiders_of(process.id, waiting[False], waiting[True] - waiting[False], snapshot)
        shown = watched.view.shown(running, outsiders, looping)
        graph = self._graph() if running else None
        shown = with_graph(graph, shown) if graph is not None else shown
        told = watched.shown.show(
            context.stamp(),
            tasks=_sourced(shown.tasks, self._sources).values(),
            resources=shown.resources.values(),
            edges=shown.edges,
            counters=shown.counters,
        )
        context.emit(*told)
        self._statuses.only(context, process.id, _problems(shot))

    async def _sample(self, watched: _Watched, context: Context) -> None:
        """Sample the threads that run a dispatch, if that was not done recently."""
        running = _running(watched, context.snapshot())
        if running and time.monotonic() >= watched.sampled_s + _SAMPLES_S:
            threads = {_number(one.thread): one.thread for one in running}
            watched.looping = await watched.loops.look(context, threads, watched.reader.at)
            watched.sampled_s = time.monotonic()


def _sampled(one: OnStack, samples: Mapping[int, Sampled], lines: Mapping[int, str]) -> OnStack:
    """Update a thread's dispatch from later samples: in the same one, or moved on to another."""
    sampled = samples.get(_number(one.thread))
    if sampled is None:
        return structs.replace(one, lines=tuple(filter(None, (lines.get(one.address),))))
    told = tuple(dict.fromkeys(line for at in sampled.addresses if (line := lines.get(at))))
    if sampled.dispatch == one.dispatch:
        return structs.replace(one, seen_mono_ns=sampled.mono_ns, lines=told)
    return structs.replace(
        one, dispatch=sampled.dispatch, taken_mono_ns=sampled.mono_ns, before=one.dispatch.name, lines=told
    )


def _sourced(tasks: Mapping[str, Task], sources: Callable[[], Mapping[str, Dumped]]) -> dict[str, Task]:
    """Add the dumped file as source of dispatches without a source."""
    found = dict(tasks)
    for name, task in tasks.items():
        facts = dispatch_facts(task)
        if facts.dispatch and not facts.source:
            dumped = sources().get(facts.dispatch)
            if dumped is not None:
                found[name] = structs.replace(task, facts=structs.replace(facts, source=dumped.place))
    return found


def _lines(watched: _Watched, running: Sequence[OnStack]) -> dict[int, str]:
    """Return the lines of the instructions at which threads were found in dispatches, by address."""
    addresses = {one.address for one in running}
    addresses.update(address for sampled in watched.loops.sampled.values() for address in sampled.addresses)
    places = {at: library for at in addresses for library in watched.reader.libraries.found if library.at(at)}
    try:
        mappings = parse_maps(watched.process.pid) if places else []
        return {at: watched.lines.at(library, at, mappings) for at, library in places.items()}
    except OSError:
        return {}  # gone, or not ours to look at


def _running(watched: _Watched, snapshot: Snapshot) -> list[OnStack]:
    return dispatches_on_stacks(watched.process.id, watched.reader.at, snapshot, in_callers=watched.in_callers)


def _in_callers(process: Process, shot: Shot, snapshot: Snapshot) -> str:
    """Return the device that runs dispatches in the calling threads.

    It is local-sync if there are semaphores of a device and no workers of another one. Modules with the inline HAL have
    neither.
    """
    living = [one for one in snapshot.threads.values() if one.process == process.id and not one.exited]
    return "local-sync" if shot.semaphores and not any(map(is_worker, living)) else ""


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


def _problems(shot: Shot) -> dict[str, tuple[str, str]]:
    """Return what can't be seen of a process: code -> sentence and remedy."""
    if not shot.known:
        version = f"of IREE {shot.runtime.version}" if shot.runtime.version else "of this build of IREE"
        sentence = f"Queues and semaphores {version} are not read: only the layout of 3.13 is known. Dispatches are."
        return {"iree-version": (sentence, _NEEDED)}
    if shot.cut:
        sentence = "The process has more memory than is searched: queued work may be missing."
        return {"iree-memory": (sentence, _NEEDED)}
    return {}
