"""The nvFuser adapter: reads what nvFuser prints and traces, with or without a process.

The decoder recognises logs with nvFuser's text, and links their records to the groups that they name. The text itself
is read by livedbg.adapters.nvfuser.dumps.statement_reader, from the file: a statement may have dozens of lines, more
than a log record. NVFUSER_TRACE files are followed for the current passes of each thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.trace import ThreadTrace, TraceReader, is_trace
from livedbg.adapters.nvfuser.dumps.triggers import TRIGGERS
from livedbg.adapters.nvfuser.facts import PassFacts
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.linux import target_files
from livedbg.linux.procfs import process_exists, read_environment
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity, Task, TaskState, ids
from livedbg.model.events import Event, Stamp
from livedbg.session.adapter import Context, Request, logs_ended
from livedbg.session.pacing import Limit, Stopwatch
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.adapters.nvfuser.dumps.statement_reader import LogFollower

_BLOCK: Final = 1 << 20
_LIMIT: Final = Limit(cpu=0.01, wall=0.1, least_s=1.0)  # of searches for traces: a file system may be slow
_SHOWN: Final = 12  # passes of a thread that are listed, innermost first


class _Trace(Struct):
    path: Path
    reader: TraceReader = field(default_factory=TraceReader)
    inode: int = 0
    offset: int = 0
    written_wall_ns: int = 0
    changed: bool = False


class TraceWatch:
    """All traces of a session."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._traces: dict[Path, _Trace] = {}
        self._passed: dict[Path, tuple[int, int]] = {}
        self._shown = Publisher("nvfuser/trace", dated=False)
        self._find_at = 0.0

    def read(self, paths: Iterable[str], for_s: float) -> bool:
        """Find traces by files, folders and patterns, and read on for some time; return whether there is more."""
        begun, watch = time.monotonic(), Stopwatch()
        if begun >= self._find_at:
            for path in _candidates(paths):
                if path not in self._traces and self._is_trace(path):
                    self._traces[path] = _Trace(path)
            self._find_at = time.monotonic() + _LIMIT.rest_s(watch.cost())
        for trace in self._traces.values():
            try:
                more = _read(trace, begun + for_s)
            except OSError:
                continue  # it is gone: what it said stays
            if more:
                return True
        return False

    def events(self, stamp: Stamp) -> list[Event]:
        """Return the changes."""
        tasks: list[Task] = []
        told: list[Diagnostic] = []
        counters: dict[tuple[str, str], tuple[float, float | None]] = {}
        for number, trace in enumerate(self._traces.values(), 1):
            if not trace.changed:
                continue
            trace.changed = False
            place = f"trace{number}" if number > 1 else "trace"
            for thread in trace.reader.threads.values():
                task = self._task(trace, thread, place)
                tasks.append(task)
                counters[task.id, "events"] = (thread.events, None)
                said = self._open(trace, thread, task)
                if thread.open or said.id in self._shown.diagnostics:
                    told.append(said)
        return self._shown.add(stamp, tasks=tasks, counters=counters, diagnostics=told)

    def _is_trace(self, path: Path) -> bool:
        """Return whether a file is a trace; one that is too short is checked again when it has grown."""
        try:
            status = target_files.status(path)
            if self._passed.get(path) == (status.st_ino, min(status.st_size, 4096)):
                return False
            descriptor = target_files.open_fd(path)
            try:
                head = os.read(descriptor, 4096)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        self._passed[path] = (status.st_ino, min(status.st_size, 4096))
        return is_trace(head)

    @staticmethod
    def _wall_ns(trace: _Trace, at_us: int) -> int:
        """Return the time of an event, relative to the file's last write, which was its newest event."""
        return trace.written_wall_ns - (trace.reader.last_us - at_us) * 1_000

    def _task(self, trace: _Trace, thread: ThreadTrace, place: str) -> Task:
        inner = thread.open[-1] if thread.open else None
        at_us = inner.begun_us if inner is not None else thread.last_us
        return Task(
            id=ids.task("nvfuser", place, f"{thread.pid}-{thread.tid:#x}"),
            system="nvfuser",
            name=f"thread …{thread.tid:#x}",
            kernel=inner.name if inner is not None else thread.last,
            state=TaskState.RUNNING if inner is not None else TaskState.COMPLETED,
            since_wall_ns=self._wall_ns(trace, at_us),
            owner=f"process {thread.pid}",
            attributes={
                "role": "a thread in nvFuser's passes",
                "passes": " > ".join(one.name for one in thread.open[-_SHOWN:]),
                "deep": str(len(thread.open)),
                "evidence": clean_line(str(trace.path)),
            },
        )

    def _open(self, trace: _Trace, thread: ThreadTrace, task: Task) -> Diagnostic:
        inner = thread.open[-1] if thread.open else None
        alive = process_exists(thread.pid)
        text = f"{inner.name} began at {inner.begun_us / 1e6:.6f} s of the trace" if inner is not None else ""
        outer = [one.name for one in reversed(thread.open)][1:_SHOWN]
        return Diagnostic(
            id=f"diagnostic:{task.id[5:]}",
            system="nvfuser",
            code="trace-open" if inner is not None else "trace-idle",
            severity=Severity.INFO if inner is not None else Severity.DEBUG,
            sentence=f"{inner.name} began and has not ended" if inner is not None else "all passes have ended",
            entities=(task.id,),
            facts=PassFacts(
                name=inner.name if inner is not None else "",
                within=", in ".join(outer),
                pid=thread.pid,
                thread=f"{thread.tid:#x}",
                process=ids.process(self._host, thread.pid),
                alive=alive,
                last_wall_ns=self._wall_ns(trace, thread.last_us) or 0,
                ended=trace.reader.ended,
            ),
            evidence=(Evidence(kind="file", file=clean_line(trace.path.name), text=text),) if text else (),
            at_wall_ns=self._wall_ns(trace, inner.begun_us) if inner is not None else None,
        )


def _read(trace: _Trace, until: float) -> bool:
    """Read until some time; return whether there is more."""
    descriptor = target_files.open_fd(trace.path)
    try:
        status = os.fstat(descriptor)
        if status.st_ino != trace.inode or status.st_size < trace.offset:
            trace.reader, trace.offset, trace.inode = TraceReader(), 0, status.st_ino
        trace.written_wall_ns = status.st_mtime_ns
        while data := os.pread(descriptor, _BLOCK, trace.offset):
            trace.offset += len(data)
            trace.reader.feed(data)
            trace.changed = True
            if time.monotonic() > until:
                return True
        trace.written_wall_ns = os.fstat(descriptor).st_mtime_ns
        return False
    finally:
        os.close(descriptor)


def _candidates(paths: Iterable[str]) -> Iterator[Path]:
    for folder, _, files in target_files.walk_some(map(target_files.without_wildcards, paths)):
        yield from (folder / name for name in files if name.endswith(".json") or "trace" in name)


_NAMES: Final = (  # each with what it begins with, which is found sooner
    ("nvfuser_", lazy_re(r"nvfuser_\w{1,200}?_f(?P<fusion>\d{1,18})_c\d{1,18}_r\d{1,18}_g(?P<group>\d{1,18})\b")),
    ("Arguments for fusion ", lazy_re(r"Arguments for fusion (?P<fusion>\d{1,18}) group (?P<group>\d{1,18}):")),
    ("Error from segmentation group ", lazy_re(r"Error from segmentation group (?P<group>\d{1,18}):")),
)
_OURS: Final = tuple(word.decode() for word in TRIGGERS if word not in {b"Exception raised from ", b"***Runtime***"})
_RAISED: Final = lazy_re(r"Exception raised from \S+ at \S*(?:Fuser/|csrc/)")


class NvfuserDecoder(LogDecoder):
    """Finds nvFuser's text in logs."""

    name = "nvfuser"
    triggers: ClassVar[tuple[bytes, ...]] = TRIGGERS

    def __init__(self, model: NvfuserModel) -> None:
        self._model = model
        self._sources: dict[str, LogSource] = {}
        self._fusion: dict[tuple[str, str], int] = {}  # that was spoken of last

    def opened(self, source: LogSource) -> None:
        self._sources[source.id] = source

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        text = record.text
        if not any(word in text for word in _OURS) and not _RAISED.search(text):
            return (), ()
        source = self._sources.get(record.source)
        if source is not None and source.path:
            self._model.want(source)
        links: dict[str, None] = {}
        prefix = record.writer
        for begin, pattern in _NAMES:
            for match in pattern.finditer(text) if begin in text else ():
                said = match.groupdict().get("fusion")
                if said is not None:
                    self._fusion[record.source, prefix] = int(said[:9])
                fusion = self._fusion.get((record.source, prefix))
                task = self._model.task_of(record.source, prefix, int(match["group"][:9]), fusion)
                if task is not None:
                    links[task] = None
        return (), tuple(links)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """Note that all available input has been fed."""
        self._model.settled = True
        return ()

    def over(self) -> None:
        """Note that no log is read any more."""
        self._model.settled = True


_POLL_S: Final = 1.0
_SLICE_S: Final = 0.5
_LOGS_S: Final = 120.0  # how long a session that reads once waits for the logs


class NvfuserAdapter(PolledAdapter):
    """Segments of nvFuser's fusions, and the passes that its threads are in."""

    name = "nvfuser"
    sees = "fusions, their segments and errors, from what nvFuser prints, and its passes from NVFUSER_TRACE's file"
    cost = "reads such logs a second time, and looks for traces each second; the target is not touched"

    of_logs = True

    def __init__(self) -> None:
        super().__init__()
        self.model = NvfuserModel()
        self._follower: LogFollower | None = None
        self._statuses = Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (NvfuserDecoder(self.model),)

    async def begin(self, context: Context) -> bool:
        """In a session that reads once, wait for the logs."""
        self._traces = TraceWatch(context.request.host)
        if context.request.once:
            await self._after_logs(context)
        return True

    async def look(self, context: Context) -> float:
        if self.model.wanted:
            await self._follow(context, final=context.request.once or logs_ended(context))
        context.emit(*self.model.collect(context.stamp()))
        places = [*context.request.logs, *await self._named_traces(context)]
        while await asyncio.to_thread(self._traces.read, places, _SLICE_S):
            context.emit(*self._traces.events(context.stamp()))
            await context.drain()
        context.emit(*self._traces.events(context.stamp()))
        for path, sentence in self._follower.problems.items() if self._follower is not None else ():
            remedy = "copy the whole file, if it was cut on its way"
            self._statuses.say(context, clean_line(path), "bad-file", clean_line(sentence), remedy)
        return _POLL_S

    async def _follow(self, context: Context, *, final: bool) -> None:
        """Continue reading the logs with nvFuser's text."""
        if self._follower is None:
            from livedbg.adapters.nvfuser.dumps.statement_reader import (
                LogFollower,
            )  # 30 ms, and most sessions have no such log

            self._follower = LogFollower(self.model)
        while await asyncio.to_thread(self._follower.read, _SLICE_S, final):
            context.emit(*self.model.collect(context.stamp()))
            await context.drain()

    async def _after_logs(self, context: Context) -> None:
        """Wait until the log adapter has found the logs with nvFuser's text."""
        deadline = time.monotonic() + _LOGS_S
        while not self.model.settled and time.monotonic() < deadline:
            await context.sleep(0.01)

    async def _named_traces(self, context: Context) -> list[str]:
        host = context.request.host
        pids = [p.pid for p in context.snapshot().processes.values() if p.host == host and not p.exited]
        pids += [target.pid for target in context.request.processes]
        return await asyncio.to_thread(_traces_of, dict.fromkeys(pids))


def _traces_of(pids: dict[int, None]) -> list[str]:
    found: list[str] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            path = read_environment(pid).get("NVFUSER_TRACE", "")
            if path:
                found.append(str(Path(f"/proc/{pid}/cwd").resolve() / path))
    return found
