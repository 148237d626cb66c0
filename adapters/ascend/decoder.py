"""Feed log records to the model: split them into lines, decode messages, add times."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec import Struct, field

from livedbg.adapters.ascend.logs import LineSplitter, RuntimeLine
from livedbg.adapters.ascend.messages import BEATS, Mark, Message, classify, exact, number, triggers
from livedbg.adapters.ascend.model import AscendModel, JobFile
from livedbg.adapters.ascend.names import by_func_id
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Event, Stamp
from livedbg.text.patterns import lazy_re

if TYPE_CHECKING:
    from livedbg.adapters.ascend.job import Job

_HELD: Final = 20  # messages of a launcher's output that wait for the logs beside it
_TEXT_LIMIT: Final = 2_000  # characters of a line that are kept as evidence
_STATUS: Final = lazy_re(r"rc=(-?[0-9]{1,8})")
_ELSEWHERE: Final = frozenset(
    {"at_once", "terminate", "what", "signal", "host_error", "names", "core_fault", "fault_kernel", "op_execute"}
)
"""Kinds of messages that any program may print: they count only in or beside a runtime's log, or with a device."""


class _Source(Struct):
    """State of one log.

    Attributes:
        last_wall_ns: time of the newest line that has one.
        offset_ns: wall clock minus monotonic clock, from the log's anchor.
        live: its initial content has been read; from now on lines are new.
        held: messages that any program may print, until the log is known to be a runtime's.
    """

    name: str
    splitter: LineSplitter = field(default_factory=LineSplitter)
    last_wall_ns: int | None = None
    offset_ns: int | None = None
    live: bool = False
    held: list[tuple[Message, Mark]] = field(default_factory=list)


class AscendDecoder(LogDecoder):
    """Decodes the log of the `simpler` runtime; its model is shared with the watcher of files."""

    name = "ascend"
    beats: ClassVar[tuple[bytes, ...]] = BEATS

    def __init__(self, model: AscendModel) -> None:
        self._model = model
        self._sources: dict[str, _Source] = {}

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return triggers()

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        return exact()

    def opened(self, source: LogSource) -> None:
        name = PurePath(source.path).name if source.path else source.name
        self._sources[source.id] = _Source(name or source.id)
        self._model.opened(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        source = self._sources.get(record.source)
        if source is None:
            source = self._sources[record.source] = _Source(record.source.rpartition("/")[2])
        links: dict[str, None] = {}
        with self._model.lock:
            for line in source.splitter.split(record.text):
                links.update(dict.fromkeys(self._line(record, source, line, stamp)))
            return self._model.collect_of(record.source, stamp), tuple(links)

    def knows(self, record: LogRecord) -> bool:
        """Return whether the runtime wrote a record: a known message, or any tagged line after a failed run."""
        with self._model.lock:
            job = self._model.known(record.source)
            failed = job is not None and job.failed
            lines = list(LineSplitter().split(record.text))
            return bool(lines) and all(
                classify(line.message, line.tagged) is not None or (failed and line.tagged) for line in lines
            )

    def over(self) -> None:
        """Note that no log is read any more, or ever: without logs, nothing is flushed."""
        with self._model.lock:
            self._model.settled = True

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        with self._model.lock:
            for identity, source in self._sources.items():
                source.live = True
                self._release(source, self._model.near(identity))  # its job's log may have been read after it
            self._model.settled = True
            return self._model.collect(stamp, whole=True)

    def _line(self, record: LogRecord, source: _Source, line: RuntimeLine, stamp: Stamp) -> tuple[str, ...]:
        message = classify(line.message, line.tagged)
        mark = self._mark(record, source, line, stamp)
        if message is None:
            self._take_activity(record, line, mark)
            return ()
        try:
            return self._take(record, source, message, line, mark)
        except ValueError:
            return ()  # a number that no field can hold: the line is damaged

    def _mark(self, record: LogRecord, source: _Source, line: RuntimeLine, stamp: Stamp) -> Mark:
        wall_ns = record.wall_ns
        if wall_ns is None and line.mono_ns is not None and source.offset_ns is not None:
            wall_ns = line.mono_ns + source.offset_ns
        exact = wall_ns is not None
        if wall_ns is not None:
            source.last_wall_ns = wall_ns
        elif source.live:
            wall_ns = stamp["wall_ns"]
        else:
            wall_ns = source.last_wall_ns
        counted = exact and line.mono_ns is not None
        text = line.text[:_TEXT_LIMIT]
        number_ = record.line_at(line.number)
        return Mark(
            source.name, text, wall_ns, exact, seen=source.live, log=record.source, counted=counted, line=number_
        )

    def _take_activity(self, record: LogRecord, line: RuntimeLine, mark: Mark) -> None:
        """Process a line that only shows activity, or a job script's exit status."""
        status = _STATUS.fullmatch(line.text.strip()) if "rc=" in line.text else None
        if status is not None:
            folder = self._model.folder_of(record.source)
            if folder is not None:
                self._model.take(JobFile(folder / mark.name, mark, status=int(status[1])))
        elif line.tagged or line.mono_ns is not None:
            job = self._model.known(record.source)
            if job is not None:
                job.log_goes_on(mark)

    def _take(
        self, record: LogRecord, source: _Source, message: Message, line: RuntimeLine, mark: Mark
    ) -> tuple[str, ...]:
        if message.kind == "anchor":
            source.offset_ns = number(message.fields, "wall") - number(message.fields, "mono")
        anybodys = message.kind in _ELSEWHERE and not message.fields.get("device")
        if anybodys and self._model.known(record.source) is None:
            if len(source.held) < _HELD:
                source.held.append((message, mark))  # until all logs have been read: which is read first is chance
            return ()
        job = self._model.job(record.source)
        self._release(source, job)
        return _handled(job, message, line.func, mark) or (job.names.run,)

    def _release(self, source: _Source, job: Job | None) -> None:
        """Process held messages once their job is known."""
        if job is None:
            return
        held, source.held = source.held, []
        for message, mark in held:
            with contextlib.suppress(ValueError):  # a damaged line
                _handled(job, message, "", mark)


def _handled(job: Job, message: Message, func: str, mark: Mark) -> tuple[str, ...]:
    if message.kind == "names":  # a launcher's: no activity of the run
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            job.use_names(by_func_id(msgspec.json.decode(message.fields["names"] or "{}", type=dict[str, str])))
        return ()
    from livedbg.adapters.ascend.handlers import handle  # 60 ms, and most sessions have no such log

    return handle(job, message.kind, message.fields, func, mark)
