"""Find and sample the schedulers of a session's processes, and report what can't be read.

A scheduler is in the AICPU's shared library, which the simulator loads once for each device: it copies it to
/tmp/aicpu_sim_XXXXXX and loads the copy (simpler src/a2a3/platform/sim/host/device_runner.cpp). Only files with `aicpu`
in their names are opened: searching the symbols of all mapped files can take seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.job import NO_MEMORY, Job, MemoryView, Suspicion
from livedbg.adapters.ascend.live.core_threads import CoreRoles
from livedbg.adapters.ascend.live.layout import Layout, read_layout
from livedbg.adapters.ascend.live.reader import SchedulerReader
from livedbg.adapters.ascend.live.scene import Unreturned
from livedbg.adapters.ascend.live.sign import WORD, first_processes
from livedbg.adapters.ascend.live.state import LiveCore, Sample
from livedbg.adapters.ascend.live.view import LiveView
from livedbg.adapters.ascend.model import AscendModel
from livedbg.adapters.ascend.names import name_kernels
from livedbg.linux.elf import ElfError, ElfFile, read_build_id
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps_text
from livedbg.model import LogSource, Process, SourceHealth
from livedbg.model.errors import LivedbgError
from livedbg.model.events import Looked
from livedbg.session.adapter import Context
from livedbg.session.pacing import SEARCH_S, Cost, Limit, Searches, Stopwatch, timed
from livedbg.session.polling import Polled
from livedbg.session.publisher import Publisher, Statuses
from livedbg.session.tools import find_gdb
from livedbg.text.patterns import lazy_re

_SYMBOLS: Final = ("_ZL16g_aicpu_executor", "g_aicpu_executor")  # a static variable, and one that is not
_SIMULATOR: Final = lazy_re(r"^(?:aicpu_sim_\w{6}|libaicpu_kernel\.so)$")


class Library(Struct, frozen=True):
    """One copy of the library in a process: a path that we can open, its load bias, and a key for its content."""

    name: str
    file: Path
    bias: int
    key: str


class LibraryFinder(Struct):
    """Searches the mapped files of processes, each once; `stripped` has simulators without symbols, by process."""

    stripped: dict[int, str] = field(default_factory=dict)
    _keys: dict[tuple[str, str, int], str | None] = field(default_factory=dict)

    def find(self, pid: int) -> list[Library]:
        """Return the libraries with a scheduler, in address order; raise OSError if the process can't be read."""
        text = Path(f"/proc/{pid}/maps").read_bytes()
        if WORD.encode() not in text:
            return []
        mappings = [mapping for mapping in parse_maps_text(text) if WORD in mapping.path.rpartition("/")[2]]
        by_file: dict[tuple[str, str, int], list[Mapping]] = {}
        for mapping in mappings:
            by_file.setdefault((mapping.path, mapping.device, mapping.inode), []).append(mapping)
        self.stripped.pop(pid, None)
        found = [library for file, mapped in by_file.items() for library in self._search(pid, file, mapped)]
        return sorted(found, key=lambda library: library.bias)

    def _search(self, pid: int, file: tuple[str, str, int], mapped: list[Mapping]) -> Iterable[Library]:
        if self._keys.get(file, "") is None or not any(mapping.executable for mapping in mapped):
            return
        path = mapped_file(pid, mapped[0])
        name = Path(file[0]).name
        try:
            with ElfFile(path) as elf:
                if file not in self._keys:
                    has = defined_symbols(elf, _SYMBOLS)
                    self._keys[file] = (read_build_id(elf) or f"{file[1]}:{file[2]}") if has else None
                key = self._keys[file]
                if key is None:
                    if _SIMULATOR.match(name):
                        del self._keys[file]  # said again at each sample
                        self.stripped[pid] = name
                    return
                biases = [elf.load_bias(copy) for copy in copies(mapped)]
        except (OSError, ElfError, ValueError):
            if _SIMULATOR.match(name):
                self.stripped[pid] = name
            return
        for bias in biases:
            if bias is not None:
                yield Library(name, path, bias, key)


_SOURCE: Final = "ascend-memory"
_LIMIT: Final = Limit(cpu=0.02, least_s=0.5, most_s=10.0)
_MOST_AGAIN: Final = 5  # more looks of it, while a run that is not young has not moved
_YOUNG_NS: Final = 10_000_000_000
_NEEDED: Final = "build the runtime with its debug information (-g, not stripped)"


class _Scheduler(Struct):
    process: Process
    reader: SchedulerReader
    view: LiveView
    job: Job
    roles: CoreRoles
    shown: Publisher


class SharedLog(MemoryView):
    """The memory of a log that several chip processes share; each chip is read separately.

    Blocking tasks are reported for each chip, since equal task ids in the log can't be told apart.
    """

    @property
    def speaks(self) -> bool:
        return True

    def suspicion(self) -> Suspicion:
        return Suspicion((), True, "its chips are read one by one")


class LiveWatch(Polled):
    """Watches the schedulers of one session."""

    apart_s = 0.3

    def __init__(self, model: AscendModel) -> None:
        super().__init__()
        self._model = model
        self._finder = LibraryFinder()
        self._layouts: dict[str, Layout | None] = {}
        self._found: dict[str, dict[int, _Scheduler]] = {}  # by process, and number in it
        self._searches = Searches()
        self._statuses = Statuses("ascend")
        self._spent_s = 0.0
        self._looked = False
        self._looks = 0

    async def begin(self, context: Context) -> bool:
        """Wait for the first processes, if any are watched."""
        if context.request.processes:
            await first_processes(context, self._model)
        return bool(context.request.processes)

    async def again(self, context: Context) -> bool:
        """In a session that samples once, sample twice, and more often while an older run has not moved."""
        self._looks += 1
        more = 1 if self._looks == 1 else _MOST_AGAIN if self._any_stuck() else 0
        return context.request.once and self._seen_any and self._looks <= more

    async def reread(self, context: Context) -> None:
        if self._seen_any:
            await self.turn(context)

    async def look(self, context: Context) -> float:
        self._spent_s, began_ns = 0.0, time.monotonic_ns()
        snapshot = context.snapshot()
        alive = [process for process in snapshot.processes.values() if not process.exited]
        with self._model.lock:
            for source in snapshot.log_sources.values():
                self._model.belongs(source)
        for process in alive:
            await self._search(process, context)
        for name, found in list(self._found.items()):
            if not any(process.id == name for process in alive):
                self._end(found)
                del self._found[name]
                self._searches.forget(name)
        for found in self._found.values():
            for number, scheduler in list(found.items()):
                if not await self._read(scheduler, context):
                    self._end(found)
                    found.pop(number, None)
        if not self._seen_any:
            self._forget_shared()
        else:
            watch = Stopwatch()
            with self._model.lock:
                context.emit(*self._model.collect(context.stamp(), whole=self._model.settled))
            self._spent_s += watch.cost().cpu_s
        if self._seen_any or self._looked:
            since = began_ns if self._seen_any else None
            context.emit(Looked(source=_SOURCE, since_mono_ns=since, **context.stamp()))
        self._looked = self._seen_any
        return _LIMIT.rest_s(Cost(self._spent_s)) if self._seen_any else SEARCH_S

    def _forget_shared(self) -> None:
        """Use a shared log itself again once no chip is read any more."""
        with self._model.lock:
            for job in self._model.jobs:
                if isinstance(job.live, SharedLog):
                    job.live, job.stale = NO_MEMORY, True

    @property
    def _seen_any(self) -> bool:
        return any(self._found.values())

    def _any_stuck(self) -> bool:
        """Return whether some older run has not moved since it is sampled."""
        views = [scheduler.view for found in self._found.values() for scheduler in found.values()]
        now_ns = time.time_ns()
        return any(
            view.speaks and not view.progress.moved and (view.progress.began_wall_ns or now_ns) < now_ns - _YOUNG_NS
            for view in views
        )

    # finding

    async def _search(self, process: Process, context: Context) -> None:
        found = self._found.setdefault(process.id, {})
        if found or not self._searches.due(process.id, often=bool(self._model.jobs)):
            return
        try:
            libraries = await asyncio.to_thread(self._finder.find, process.pid)
        except OSError:
            return  # gone, or not ours to look at: the process adapter says so
        stripped = self._finder.stripped.get(process.pid)
        if stripped:
            sentence = f"{stripped} of process {process.pid} has no symbols: its tasks can't be read from memory."
            self._say(context, process, "live-stripped", sentence, remedy=_NEEDED)
        for number, library in enumerate(libraries):
            layout = await self._layout(library, process, context)
            if layout is not None:
                reader = SchedulerReader(process.pid, library.bias + layout.address, layout)
                self._start(process, (number, len(libraries)), reader, context)

    async def _layout(self, library: Library, process: Process, context: Context) -> Layout | None:
        gdb = find_gdb(context.request.gdb)
        if gdb is None:
            sentence = "The layout of the scheduler's memory is read by gdb, and there is none."
            self._say(context, process, "live-no-gdb", sentence, remedy="install gdb, or name it with --gdb")
            return None
        if library.key not in self._layouts:
            try:
                self._layouts[library.key] = await read_layout(gdb, library.file, process.pid)
            except LivedbgError as error:
                sentence = f"gdb can't read the debug information of {library.name}: {error.message}"
                self._say(context, process, "live-layout", sentence, remedy=error.remedy)
                return None
        layout = self._layouts[library.key]
        if layout is None or layout.needed:
            lacks = ", ".join(layout.needed) if layout is not None else "the scheduler's types"
            sentence = f"The debug information of {library.name} lacks {lacks}: its tasks can't be read from memory."
            self._say(context, process, "live-layout", sentence, remedy=_NEEDED)
            return None
        if layout.missing:
            lost = "; ".join(f"{name} ({loss})" for name, loss in sorted(layout.missing.items()))
            sentence = (
                f"The debug information of {library.name} lacks fields, and what they would tell is not shown: {lost}."
            )
            self._say(context, process, "live-fields", sentence, health=SourceHealth.DEGRADED)
        return layout

    def _start(self, process: Process, place: tuple[int, int], reader: SchedulerReader, context: Context) -> None:
        number, count = place
        snapshot = context.snapshot()
        found = self._found[process.id]
        alone = count == 1 and not any(other for other in self._found.values() if other is not found)
        with self._model.lock:
            job = self._job_of(process, alone, number, list(snapshot.log_sources.values()))
            if job is None:
                return
            view = job.live = LiveView(job, process.pid)
            job.process = job.process or process.id
            if job.process == process.id and job.environment is None:
                job.environment = dict(process.environment)
        found[number] = _Scheduler(process, reader, view, job, CoreRoles(process, job.names), Publisher(job.names.run))

    def _job_of(self, process: Process, alone: bool, number: int, sources: Sequence[LogSource]) -> Job | None:
        """Return the job of a scheduler; None if not known yet.

        The first scheduler of a process belongs to the job of its log: its own, or the only log of processes if there
        is no other scheduler. Chips that share a log, and further schedulers, have a job each.
        """
        own = [source for source in sources if source.process == process.id]
        logs = own or ([source for source in sources if source.process] if alone else [])
        shared = next((job for job in self._model.jobs if process.pid in job.chips), None)
        if number == 0 and (own or alone) and (shared is None or not shared.shared):
            known = self._jobs_of(logs)
            free = next((job for job in known if not self._is_read(job)), None)
            if free is not None:
                return free
            if logs and not self._model.settled:
                return None
            if not known:
                return self._model.job_of_memory(f"pid{process.pid}", process.id)
        return self._job_of_chip(process, number, shared)

    def _jobs_of(self, logs: Sequence[LogSource]) -> list[Job]:
        """Return the jobs of some logs; without logs the only existing job."""
        known = [job for source in logs if (job := self._model.known(source.id)) is not None]
        return self._model.jobs if not logs and len(self._model.jobs) == 1 else known

    def _is_read(self, job: Job) -> bool:
        return any(other.job is job for found in self._found.values() for other in found.values())

    def _job_of_chip(self, process: Process, number: int, shared: Job | None) -> Job:
        """Create the job of the n-th of several chips, which may share a log."""
        name = f"dev{shared.chips[process.pid]}" if shared is not None else f"pid{process.pid}"
        job = self._model.job(f"{name}.{number}" if number else name)
        if shared is not None:  # the log that they share has gone quiet for each of them
            job.last_wall_ns = job.last_wall_ns or shared.last_wall_ns
            job.use_names(shared.kernels.by_id)
            if shared.live is NO_MEMORY:
                shared.live, shared.stale = SharedLog(), True
        return job

    # reading

    async def _read(self, scheduler: _Scheduler, context: Context) -> bool:
        try:
            sample, cost = await asyncio.to_thread(timed, scheduler.reader.sample)
        except ProcessLookupError:
            return False
        except OSError as error:
            sentence = f"The memory of process {scheduler.process.pid} may not be read: {error.strerror}."
            remedy = "run livedbg as the process's user or as root"
            self._say(context, scheduler.process, "no-permission", sentence, remedy=remedy)
            return False
        left = await self._unreturned(scheduler) if sample is None else []
        watch = Stopwatch()
        with self._model.lock:
            scheduler.view.take(sample, time.time_ns())
            if sample is None:
                scheduler.view.take_unreturned(left)
            names = dict(scheduler.job.kernels.by_id)
        self._spent_s += cost.cpu_s + watch.cost().cpu_s
        await self._name_cores(scheduler, sample, left, context)
        if names:
            name_kernels(scheduler.process.pid, names)
        if sample is not None:
            if sample.queued is not None:
                queued = {(scheduler.job.names.run, "in ready queues"): (sample.queued, None)}
                context.emit(*scheduler.shown.add(context.stamp(), counters=queued))
            if scheduler.reader.cut:
                sentence = "There are so many dependencies that some are read in the next sample."
                self._say(context, scheduler.process, "live-many", sentence, health=SourceHealth.DEGRADED)
            else:
                self._statuses.withdraw(context, scheduler.process.id, "live-many")
        self._say(context, scheduler.process, "live", "", health=SourceHealth.OK)
        return True

    async def _unreturned(self, scheduler: _Scheduler) -> list[Unreturned]:
        """Return the cores whose kernels have not returned; [] if the process has several schedulers."""
        if len(self._found[scheduler.process.id]) > 1:
            return []
        try:
            threads, cost = await asyncio.to_thread(timed, scheduler.roles.threads.remaining)
            self._spent_s += cost.cpu_s
            return await asyncio.to_thread(scheduler.reader.unreturned, threads) if threads else []
        except OSError:
            return []  # it has just gone: the next sample says so

    async def _name_cores(
        self, scheduler: _Scheduler, sample: Sample | None, left: list[Unreturned], context: Context
    ) -> None:
        """Publish which threads are which cores, unless the process has several schedulers."""
        alone = len(self._found[scheduler.process.id]) == 1
        try:
            found, cost = await asyncio.to_thread(timed, scheduler.roles.sample) if alone else ({}, Cost())
        except OSError:
            return  # it has just gone: the next sample says so
        self._spent_s += cost.cpu_s
        cores = sample.cores if sample is not None else {one.core: LiveCore(one.core) for one in left}
        found = found if sample is not None else {one.tid: one.core for one in left}
        context.emit(*scheduler.roles.events(found, cores, context.snapshot(), context.stamp()))

    def _end(self, found: dict[int, _Scheduler]) -> None:
        with self._model.lock:
            for scheduler in found.values():
                scheduler.view.end()
                scheduler.job.stale = True

    def _say(
        self,
        context: Context,
        process: Process,
        code: str,
        sentence: str,
        *,
        remedy: str = "",
        health: SourceHealth = SourceHealth.FAILED,
    ) -> None:
        self._statuses.say(context, process.id, code, sentence, remedy, health=health)
