"""All jobs of a session, with their logs (and ranks in them).

Standard output and standard error of one run are one job: they belong to one process, or are in one folder with names
that differ only in `out` and `err`. Ranks that share a log are jobs of their own.
"""

from __future__ import annotations

import re
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from livedbg.model import LogSource, ids
from livedbg.model.events import Event, Stamp
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.adapters.nvfuser.dumps.statements import Said
    from livedbg.adapters.nvfuser.events import Emitter

_STREAM: Final = lazy_re(r"(?:^|[._-])?(?:std)?(?:out|err)(?:put|or)?(?=$|[._-])", re.IGNORECASE)
_RANK: Final = lazy_re(r"(\d+)")
_JOBS: Final = 5_000


class NvfuserModel:
    """Jobs by key. Logs are read in a worker thread, events are collected on the event loop: guarded by `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wanted: dict[str, LogSource] = {}
        self.settled = False
        self._jobs: dict[tuple[str, str], Emitter] = {}
        self._labels: set[str] = set()

    def want(self, source: LogSource) -> None:
        """Request reading of a log with nvFuser's text."""
        with self.lock:
            self.wanted.setdefault(source.id, source)

    def take(self, source: LogSource, said: Said, live: bool, wall_ns: int) -> None:
        """Process a statement of a log; `live` if it was written after the log was first read."""
        from livedbg.adapters.nvfuser.job import Mark

        emitter = self._emitter(source, said.prefix)
        if emitter is not None:
            path = source.path or ""
            name = clean_line(PurePath(path).name if path else source.name)
            emitter.job.take(said.statement, Mark(name, None, path, wall_ns if live else None, source.id))

    def collect(self, stamp: Stamp) -> list[Event]:
        """Return the events since the last call."""
        with self.lock:
            return [event for emitter in self._jobs.values() for event in emitter.collect(stamp)]

    def task_of(self, source: str, prefix: str, group: int, fusion: int | None) -> str | None:
        """Return the id of a group's task, if the group is known."""
        with self.lock:
            known = self.wanted.get(source)
            emitter = self._jobs.get((_key(known), prefix)) if known is not None else None
            if emitter is not None:
                return emitter.task_of(group, fusion)
            first = not self._jobs and not prefix and fusion is not None  # it will be called so when it is read
            return ids.task("nvfuser", f"f{fusion}", f"g{group}") if first else None

    def _emitter(self, source: LogSource, prefix: str) -> Emitter | None:
        key = (_key(source), prefix)
        emitter = self._jobs.get(key)
        if emitter is None and len(self._jobs) < _JOBS:
            from livedbg.adapters.nvfuser.events import Emitter  # most sessions have no job of nvFuser's
            from livedbg.adapters.nvfuser.job import Job

            writer = prefix or (f"rank {source.rank}" if source.rank is not None else "")
            emitter = self._jobs[key] = Emitter(Job(), self._label(key), writer)
        return emitter

    def _label(self, key: tuple[str, str]) -> str:
        """Return what distinguishes this job in ids: "" for the first one, its rank, or its name."""
        rank = _RANK.search(key[1])
        if rank is not None:
            label = f"rank{rank[1]}"
        elif not self._jobs:
            label = ""
        else:
            label = re.sub(r"[^\w.-]+", "-", PurePath(key[0]).name).strip("-") or f"job{len(self._jobs) + 1}"
        base, number = label, 1
        while label in self._labels:
            number += 1
            label = f"{base or 'job'}{number}"
        self._labels.add(label)
        return label


def _key(source: LogSource) -> str:
    if source.process:
        return source.process
    if not source.path:
        return source.id
    path = PurePath(source.path)
    stem = _STREAM.sub("", path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".log"))
    return str(path.parent / stem)
