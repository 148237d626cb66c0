"""The jobs of a session, and their logs and files: shared by the decoder and the file watcher.

A device log and the host log of one pid are one job, and so are the rotated parts of a log; every other log with the
runtime's lines in it is a job of its own. Names and graphs belong to the job with the nearest log.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from livedbg.adapters.ascend.messages import Mark
from livedbg.adapters.ascend.names import Names
from livedbg.adapters.ascend.watchdogs import LoadHistory
from livedbg.linux import target_files
from livedbg.model import LogSource, Process
from livedbg.model.events import Event, Stamp
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.adapters.ascend.dumps.scope_stats import ScopeStats
    from livedbg.adapters.ascend.emission import Emitter
    from livedbg.adapters.ascend.job import Job
    from livedbg.graphs.declared import TaskGraph

# CANN's names: plog-<pid>_<17 digits>.log, device-<pid>_<17 digits>.log below a folder device-<id>
_CANN_NAME: Final = lazy_re(r"^(?:plog|device)-(\d{1,18})_\d{1,18}\.log")
_CANN_DEVICE: Final = lazy_re(r"^device-(\d{1,18})$")
_ROTATED: Final = lazy_re(r"(?:[.-]\d{1,3})?(?:\.gz|\.zst)?$")
_OPEN_FILE: Final = lazy_re(r"^/proc/(\d{1,18})/fd/\d{1,18}$")  # a log without a path: a file that is deleted, a pipe
_UP: Final = 4  # how many folders above a file its job's log may lie


class JobFile(Struct, frozen=True):
    """A file next to a log with data about its job.

    Attributes:
        graph: from a `deps.json`.
        names: names of kernels, from a `name_map*.json`.
        status: exit status, from an `exit.txt`.
        scopes: from a `scope_stats.jsonl`.
    """

    path: PurePath
    mark: Mark
    graph: TaskGraph | None = None
    names: dict[int, str] = field(default_factory=dict)
    status: int | None = None
    scopes: ScopeStats | None = None


class _Record(Struct):
    """A job, and the folder of its log; `of_file`, `of_memory` (a process): what it was created for before its log
    appeared.
    """

    job: Job
    emitter: Emitter
    folder: PurePath | None
    key: str
    of_file: bool = False
    of_memory: str = ""


class AscendModel:
    """All jobs of a session. Logs are fed in a worker thread, files on the event loop: guarded by `lock`.

    Attributes:
        settled: all initial logs have been read once. A graph without a job then gets its own.
        named: the folders and files that the user named.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._of_source: dict[str, str] = {}
        self._paths: dict[str, PurePath | None] = {}
        self._written: dict[str, int] = {}
        self._process: dict[str, str] = {}
        self.loads = LoadHistory()
        self._unclaimed: list[JobFile] = []
        self.named: tuple[PurePath, ...] = ()
        self._given: dict[tuple[str, PurePath], JobFile] = {}
        self.settled = False
        self.lock = threading.RLock()

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs, in order of discovery."""
        return [record.job for record in self._records.values()]

    def opened(self, source: LogSource) -> None:
        self._paths[source.id] = PurePath(source.path) if source.path else None
        self.belongs(source)
        if source.path:
            with contextlib.suppress(OSError):
                self._written[source.id] = target_files.status(Path(source.path)).st_mtime_ns

    def folder_of(self, source: str) -> PurePath | None:
        path = self._paths.get(source)
        return path.parent if path is not None else None

    def known(self, source: str) -> Job | None:
        """Return the job of a log, if that had relevant lines already."""
        key = self._of_source.get(source)
        return self._records[key].job if key is not None else None

    def job(self, source: str) -> Job:
        """Return the job of a log; created at its first relevant line."""
        known = self.known(source)
        if known is not None:
            return known
        path = self._paths.get(source)
        key = self._key(source, path)
        self._of_source[source] = key
        record = self._records.get(key) or self._adopt(key, path, self._process.get(source, "")) or self._add(key, path)
        written = self._written.get(source)
        if written is not None:
            record.job.written_wall_ns = max(written, record.job.written_wall_ns or 0)
        record.job.process = record.job.process or self._process.get(source, "")
        return record.job

    def job_of_memory(self, name: str, process: str) -> Job:
        """Return the job of a scheduler in memory; a later log of its process joins it."""
        self.job(name)
        record = self._records[self._of_source[name]]
        record.of_memory = process
        return record.job

    def belongs(self, source: LogSource) -> None:
        """Note the process of a log."""
        if source.process:
            self._process[source.id] = source.process

    def processes_seen(self, processes: Mapping[str, Process]) -> bool:
        """Note the start environment and end of the jobs' processes; return whether that was new."""
        news = False
        for job in self.jobs:
            process = processes.get(job.process)
            if process is not None and job.environment is None:
                job.environment = dict(process.environment)
                job.started_wall_ns = process.start_wall_ns
                news = job.stale = True
            if process is not None and process.exited and process.exit_status is not None and not job.ended:
                job.ended = news = True
                status = process.exit_status
                how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
                job.exited(process.exit_status, Mark(f"wait status of process {process.pid}", how, kind="proc"))
        return news

    def near(self, source: str) -> Job | None:
        """Return the job of a line of another log (a launcher's output): its own, or the only one in its folder."""
        known = self.known(source)
        if known is not None:
            return known
        folder = self.folder_of(source)
        if folder is None:
            return None
        beside = [record for record in self._records.values() if record.folder == folder]
        return beside[0].job if len(beside) == 1 else None

    def _key(self, source: str, path: PurePath | None) -> str:
        if path is None:
            return source
        cann = _CANN_NAME.match(path.name)
        if cann is None:
            return str(path.parent / _ROTATED.sub("", path.name))
        device = _CANN_DEVICE.match(path.parent.name)
        root = path.parent.parent
        if root.name in {"debug", "run", "security"}:
            root = root.parent
        pid = f"{root}#pid{cann[1]}"
        if device is None:
            same = [key for key in self._records if key.startswith(f"{pid}/")]
            return same[0] if same else f"{pid}/host"
        host = self._records.pop(f"{pid}/host", None)
        key = f"{pid}/device{device[1]}"
        if host is not None:
            self._records[key] = host
            self._of_source = {s: key if k == f"{pid}/host" else k for s, k in self._of_source.items()}
        return key

    def _add(self, key: str, path: PurePath | None) -> _Record:
        label = "" if not self._records else self._label(key, path)
        from livedbg.adapters.ascend.emission import Emitter  # with what a job is: 70 ms, and most sessions have none
        from livedbg.adapters.ascend.job import Job

        job = Job(Names(label), place=clean_line(path.parent.name) if path is not None else "", loads=self.loads)
        record = _Record(job, Emitter(job), path.parent if path is not None else None, key)
        self._records[key] = record
        waiting, self._unclaimed = self._unclaimed, []
        for file in waiting:
            self.take(file)
        return record

    def _adopt(self, key: str, path: PurePath | None, process: str) -> _Record | None:
        """Reuse a job that was created for a graph or a process's memory before its log appeared."""
        for old, record in self._records.items():
            folder = record.folder
            beside = path is not None and folder is not None and path.parent in [folder, *folder.parents][: _UP + 1]
            if (record.of_file and beside) or (process and record.of_memory == process):
                del self._records[old]
                record.key, record.of_file, record.of_memory = key, False, ""
                record.folder = path.parent if path is not None else None
                record.job.place = clean_line(path.parent.name) if path is not None else ""
                self._records[key] = record
                self._of_source = {name: key if known == old else known for name, known in self._of_source.items()}
                return record
        return None

    def _label(self, key: str, path: PurePath | None) -> str:
        taken = {job.names.label for job in self.jobs}
        parts = list(path.parts) if path is not None else [key]
        device = re.search(r"/device(\d{1,18})$", key) if "#pid" in key else None
        open_file = _OPEN_FILE.match(str(path)) if path is not None else None
        candidates = [f"dev{device[1]}"] if device else [f"pid{open_file[1]}"] if open_file else []
        candidates += [".".join(parts[-depth - 1 : -1]) for depth in range(1, min(len(parts) - 1, 4) + 1)]
        candidates += [f"{parts[-1]}"]
        for candidate in candidates:
            name = Names(candidate).label
            if name and name not in taken:
                return name
        return f"job{len(taken) + 1}"

    def take(self, file: JobFile) -> None:
        """Give a file to its job, or keep it until that is known."""
        records = self._nearest(file.path)
        if not records:
            self._unclaimed = [f for f in self._unclaimed if f.path != file.path] + [file]
        for record in records:
            self._give(record, file)

    def _place_files(self) -> None:
        """Give files without a neighbouring log to the only job; a graph without any job gets its own, if the
        user named it or a parent folder: otherwise it may be of another run.
        """
        if self.settled and len(self._records) == 1:
            waiting, self._unclaimed = self._unclaimed, []
            for file in waiting:
                self.take(file)
        graph = next(
            (
                file
                for file in self._unclaimed
                if file.graph is not None and any(map(file.path.is_relative_to, self.named))
            ),
            None,
        )
        if graph is not None and self.settled and not self._records:
            self._add(str(graph.path), graph.path).of_file = True

    def _give(self, record: _Record, file: JobFile) -> None:
        if self._given.get((record.key, file.path)) == file:
            return
        self._given[record.key, file.path] = file
        if file.names:
            record.job.use_names(file.names)
        if file.graph is not None:
            record.job.use_graph(file.graph, file.mark)
        if file.scopes is not None:
            record.job.use_scopes(file.scopes, file.mark)
        if file.status is not None:
            record.job.exited(file.status, file.mark)

    def _nearest(self, path: PurePath) -> list[_Record]:
        """Return the jobs whose log is in the file's folder or the nearest parent; else the only existing job."""
        folder = path.parent
        for above in [folder, *folder.parents][: _UP + 1]:
            beside = [record for record in self._records.values() if record.folder == above]
            if beside:
                return beside
        return list(self._records.values()) if len(self._records) == 1 and self.settled else []

    def collect(self, stamp: Stamp, *, whole: bool = False) -> list[Event]:
        """Return the events of all jobs since the last call."""
        if whole:
            self._place_files()
            for job in self.jobs:
                job.be_quiet(stamp["wall_ns"])
        return [event for record in self._records.values() for event in record.emitter.collect(stamp, whole=whole)]

    def collect_of(self, source: str, stamp: Stamp) -> list[Event]:
        """Return the events of one log's job since the last call, without updating conclusions."""
        key = self._of_source.get(source)
        return self._records[key].emitter.collect(stamp) if key is not None else []
