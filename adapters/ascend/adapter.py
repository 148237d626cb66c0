"""The Ascend adapter: reads the logs and files of the `simpler` runtime, with or without a process.

The log adapter reads the log and feeds this adapter's decoder. This module watches the files next to the logs
(deps.json, name_map*.json, scope_stats.jsonl), notices when a log has gone quiet, and samples the machine's load while
the run of a process is watched.

The files are written after a run has drained, and may be read half-written: a file that is not complete JSON yet is
retried when it has changed.

A process that has mapped a file with `aicpu` in its name may have a scheduler in memory. Its reader is imported only
then: most sessions have none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from livedbg.adapters.ascend.compiling import CompileDecoder
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.dumps.graphs import OtherShape, parse_graph
from livedbg.adapters.ascend.live.sign import is_there
from livedbg.adapters.ascend.messages import Mark
from livedbg.adapters.ascend.model import AscendModel, JobFile
from livedbg.adapters.ascend.names import read_names
from livedbg.adapters.ascend.passes import find_dumps
from livedbg.adapters.ascend.report_decoder import CannDecoder
from livedbg.linux import target_files
from livedbg.linux.last_ran import read_load
from livedbg.linux.target_files import is_folder, is_shared, without_wildcards
from livedbg.logs.decoder import LogDecoder
from livedbg.model.events import CounterSeen
from livedbg.session.adapter import Context, Request, logs_ended
from livedbg.session.pacing import Limit, Stopwatch
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

if TYPE_CHECKING:
    from livedbg.adapters.ascend.live.watch import LiveWatch

SIZE_LIMIT: Final = 256 << 20
"""A larger file is not read."""

_NAMES: Final = ("deps.json", "scope_stats.jsonl")
_SHORT_S: Final = 2.0  # looks come no more often in any case
_LIMIT: Final = Limit(cpu=0.02, most_s=300.0)  # of reading a file that changes all the time
_BAD: Final = "bad-file"
_POLL_S: Final = 2.0
_READ_S: Final = 0.05  # how soon it is known that the logs have been read once
_SOON_S: Final = 0.25  # how soon it is known what a job's process was started with


class FileProblem(Struct, frozen=True):
    """A file that can't be used now; `passing` if it may become valid later, since it is being written."""

    sentence: str
    passing: bool
    remedy: str


def folders_of(patterns: Iterable[str]) -> list[Path]:
    """Return the absolute folders of log arguments (files, folders, globs).

    A folder that everybody writes into counts only if it is named itself.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = without_wildcards(pattern)
        if is_folder(path):
            found[path] = None
        elif is_folder(path.parent) and not is_shared(path.parent):
            found[path.parent] = None
    return list(found)


def named_in(patterns: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders, and the files of known kinds, that log arguments name directly."""
    paths = [(pattern, Path(pattern).expanduser().absolute()) for pattern in patterns]
    files = (path for _, path in paths if path.name in _NAMES)
    whole = (pattern for pattern, path in paths if any(mark in pattern for mark in "*?[") or is_folder(path))
    return (*files, *folders_of(whole))


class FileWatch:
    """Finds files below some folders, and returns each again when it has changed."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int]] = {}
        self._rests: dict[Path, float] = {}
        self.problems: dict[Path, FileProblem] = {}

    def scan(self, folders: Iterable[Path], *, last: bool = False) -> list[JobFile]:
        """Return new or changed files; unless `last`, skip costly ones for some time. Blocking: call it in a thread."""
        found: list[JobFile] = []
        for path in _candidates(folders):
            try:
                status = target_files.status(path)
            except OSError:
                continue
            signature = (status.st_mtime_ns, status.st_size)
            begun, watch = time.monotonic(), Stopwatch()
            if self._seen.get(path) == signature or (self._rests.get(path, 0.0) > begun and not last):
                continue
            self._seen[path] = signature
            self.problems.pop(path, None)
            if status.st_size > SIZE_LIMIT:
                limit = f"{path} is larger than {SIZE_LIMIT >> 20} MiB and is not read."
                self._problem(
                    path, limit, False, f"livedbg graph {shell_word(path)}   reads the first part of a deps.json"
                )
                continue
            file = self._read(path, status.st_mtime_ns)
            rest_s = _LIMIT.rest_s(watch.cost())
            self._rests[path] = begun + rest_s if rest_s > _SHORT_S else 0.0
            if file is not None:
                found.append(file)
        return found

    def _read(self, path: Path, changed_wall_ns: int) -> JobFile | None:
        mark = Mark(clean_line(path.name), clean_line(path.name), changed_wall_ns, kind="file")
        try:
            data = target_files.read_bytes(path)
            if path.name == "deps.json":
                from livedbg.graphs.lost import lost_orders

                graph = parse_graph(data)
                lost_orders(graph)  # it may take seconds: here, in a thread of its own
                return JobFile(path, mark, graph=graph)
            if path.name == "scope_stats.jsonl":
                from livedbg.adapters.ascend.dumps.scope_stats import read_scope_stats

                return JobFile(path, mark, scopes=read_scope_stats(data))
            return JobFile(path, mark, names=read_names(data))
        except OSError as error:
            self._problem(path, f"{path} can't be read: {error.strerror}.", False)
        except OtherShape as error:
            self._problem(
                path, f"{path} is not read: {error}.", False, f"livedbg graph {shell_word(path)}   says what is read"
            )
        except (ValueError, msgspec.DecodeError, RecursionError):
            self._problem(path, f"{path} is not whole: it is being written, or was cut.", True)
        return None

    def _problem(
        self, path: Path, sentence: str, passing: bool, remedy: str = "check that the run that writes it has ended"
    ) -> None:
        self.problems[path] = FileProblem(clean_line(sentence), passing, clean_line(remedy))


def _candidates(folders: Iterable[Path]) -> Iterator[Path]:
    for folder, _, files in target_files.walk_some(folders):
        for name in files:
            if name in _NAMES or (name.startswith("name_map") and name.endswith(".json")):
                yield folder / name


class AscendAdapter(PolledAdapter):
    """Tasks, cores and dependencies of Ascend NPU runs."""

    name = "ascend"
    sees = (
        "tasks, cores, dependencies and stalls of the `simpler` runtime, from its log, its files, and the memory of a "
        "running simulator"
    )
    cost = (
        "reads log lines that are read anyway, looks for a few kinds of files and at the machine's load every 2 s; the "
        "target is not touched. The memory of a simulator is read twice a second: 1 ms of processor time, with full "
        "rings more, at most 2 % of a core"
    )

    of_logs = True

    def __init__(self) -> None:
        super().__init__()
        self.model = AscendModel()
        self._files = FileWatch()
        self._decoder = AscendDecoder(self.model)
        self._compile = CompileDecoder()
        self._told: set[Path] = set()
        self._logs_known = False
        self._statuses = Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """Return the decoders of the runtime's log, the compiler's errors, and CANN's reports."""
        return (self._decoder, self._compile, CannDecoder())

    async def run(self, context: Context) -> None:
        async with asyncio.TaskGroup() as group:
            live = group.create_task(self._memory(context))
            if context.request.once:
                await live
            await super().run(context)
            live.cancel()

    async def look(self, context: Context) -> float:
        over = logs_ended(context)  # this is the last scan
        if over and not context.request.once:
            await self._logs_read(lambda: self._compile.ended, context)
        await self._scan(context, last=over)
        self._sample(context)
        self._collect(context)
        return _POLL_S

    async def reread(self, context: Context) -> None:
        """Sample the memory of simulators again."""
        if "_live" in vars(self):  # it has been needed
            await self._live.reread(context)

    @cached_property
    def _live(self) -> LiveWatch:
        from livedbg.adapters.ascend.live.watch import LiveWatch

        return LiveWatch(self.model)

    async def _memory(self, context: Context) -> None:
        if await is_there(context, self.model):
            await self._live.run(context)

    async def again(self, context: Context) -> bool:
        """In a continuous session, wait until the logs have been read once; the next scan knows their folders.

        A stop of a thread needs the watchdog's limit, which must be known once all have settled.
        """
        if context.request.once or self._logs_known or logs_ended(context):
            return False
        until = time.monotonic() + _POLL_S
        while time.monotonic() < until and not (self.model.settled or logs_ended(context) or self._compile.news):
            await context.sleep(_READ_S)
        self._logs_known = self.model.settled
        return True

    def _collect(self, context: Context) -> None:
        with self.model.lock:
            self.model.processes_seen(context.snapshot().processes)
            context.emit(*self.model.collect(context.stamp(), whole=True))

    async def rest(self, context: Context, pause_s: float) -> None:
        """Wait until the next scan; end early for a failed compilation or the end of the logs.

        The start environment of a job's process is taken as soon as it is known.
        """
        until = time.monotonic() + pause_s
        while time.monotonic() < until and not logs_ended(context) and not self._compile.news:
            await context.sleep(_SOON_S if self.model.jobs or context.snapshot().log_sources else _POLL_S)
            with self.model.lock:
                news = self.model.processes_seen(context.snapshot().processes)
            if news:
                self._collect(context)

    def _sample(self, context: Context) -> None:
        """Sample the machine's load while the run of a process is watched."""
        with self.model.lock:
            watched = any(job.process for job in self.model.jobs)
        load = read_load() if watched else None
        if load is None:
            return
        stamp = context.stamp()
        with self.model.lock:
            self.model.loads.add(stamp["wall_ns"], load)
        numbers = {"load": load.minute, "runnable threads": float(load.runnable)}
        if load.waiting is not None:
            numbers["waiting for a CPU (%)"] = load.waiting * 100
        entity = f"host:{context.request.host}"
        context.emit(*(CounterSeen(entity=entity, name=name, value=value, **stamp) for name, value in numbers.items()))

    async def _scan(self, context: Context, *, last: bool) -> None:
        if context.request.once:
            await self._logs_read(lambda: self.model.settled, context)
        logs = [source.path for source in context.snapshot().log_sources.values() if source.path]
        folders = await asyncio.to_thread(folders_of, [*context.request.logs, *logs])
        files = await asyncio.to_thread(self._files.scan, folders, last=last)
        named = await asyncio.to_thread(named_in, context.request.logs)
        with self.model.lock:
            self.model.named = named
            for file in files:
                self.model.take(file)
        if self._compile.failed or self._compile.news:
            folders += self._work_folders(context)
            self._compile.use_dumps(await asyncio.to_thread(find_dumps, folders))
            await asyncio.to_thread(self._compile.use_sources, folders)
            context.emit(*self._compile.events(context.stamp()))
        self._tell(context)

    async def _logs_read(self, read: Callable[[], bool], context: Context) -> None:
        """Wait until the logs are read: results from files come after those from logs."""
        while not (read() or self._compile.ended):
            await context.sleep(0.01)

    def _work_folders(self, context: Context) -> list[Path]:
        """Return where the processes run or were launched: a compiler writes below that."""
        working = [process.cwd for process in context.snapshot().processes.values() if process.target and process.cwd]
        launched = [target.cwd for target in context.request.processes if target.cwd is not None]
        return list(dict.fromkeys([*map(Path, working), *launched]))

    def _tell(self, context: Context) -> None:
        problems = self._files.problems
        for path, problem in problems.items():
            if not (problem.passing and not context.request.once):
                self._told.add(path)
                self._statuses.say(context, str(path), _BAD, problem.sentence, problem.remedy)
        for path in [path for path in self._told if path not in problems]:
            self._told.discard(path)
            self._statuses.withdraw(context, str(path))
