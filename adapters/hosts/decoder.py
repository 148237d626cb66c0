"""The decoder of what hosts log of the ends of jobs: puts the lines of one message together, which come as records."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.hosts.endings import TRIGGERS, endings
from livedbg.adapters.hosts.kinds import Ending, Kind
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.model.snapshot import Snapshot

__all__ = ["HostsDecoder", "explains"]

_TOGETHER: Final = 4  # records that can be one message: a heading, an empty rule, the process, how it ended
_NEAR: Final = 6  # lines between the first and the last of them
_MOST: Final = 200  # endings of one log that are told: a launcher lists thousands of ranks
_TEXT: Final = 600
_ASIDE: Final = re.compile(  # what launchers print of each task once a job ends
    r"^(?:srun|slurmstepd|mpirun|mpiexec|prterun)(?:-[\w.-]+)?: error: \S+: tasks? [\d,-]+: "
    r"(?:Terminated|Killed|Exited with exit code \d+|Aborted|Segmentation fault|Bus error)\b"
)


class _Log(Struct):
    """What is known of one log."""

    source: LogSource
    before: deque[LogRecord] = field(default_factory=lambda: deque(maxlen=_TOGETHER - 1))
    told: set[str] = field(default_factory=set)


class HostsDecoder(LogDecoder):
    """Makes a diagnostic of each ending that a log tells."""

    name = "hosts"
    triggers: ClassVar[tuple[bytes, ...]] = TRIGGERS

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        self._logs[source.id] = _Log(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        log = self._logs.get(record.source)
        if log is None:
            return (), ()
        parts = [one for one in log.before if _near(one, record)]
        log.before.append(record)
        told = list(self._new(endings(record.text), record, record.text, log))
        if parts:
            joined = "\n".join(one.text for one in (*parts, record))
            told += self._new(endings(joined), record, joined, log)
        return [DiagnosticSeen(diagnostic=said, **stamp) for said in told], ()

    def knows(self, record: LogRecord) -> bool:
        """An ending that was told before, or a task's share in one."""
        log = self._logs.get(record.source)
        if log is None or not log.told:
            return False
        return bool(endings(record.text)) or _ASIDE.search(record.text) is not None

    def _new(self, found: Sequence[Ending], record: LogRecord, lines: str, log: _Log) -> Iterator[Diagnostic]:
        for ending in found:
            name = hashlib.blake2b(f"{record.source}\n{ending.kind}\n{ending.key}".encode(), digest_size=6).hexdigest()
            if name in log.told or len(log.told) >= _MOST:
                continue
            log.told.add(name)
            text = lines.strip()[:_TEXT]
            attributes = {"order": str(record.line or 0), "source": record.source, "pid": str(ending.pid or "")}
            marks = (
                ("shell", ending.shell),
                ("limit", ending.limit),
                ("outside", ending.outside),
                ("fault", ending.fault),
                ("interpreter", ending.interpreter),
            )
            attributes |= {name: "yes" for name, said in marks if said}
            yield Diagnostic(
                id=f"diagnostic:hosts/{name}",
                system="hosts",
                code=ending.kind.value,
                severity=Severity.ERROR,
                sentence=ending.sentence,
                attributes={**attributes, "next": "\n".join(ending.steps)},
                evidence=(Evidence.of_record(record, log.source.name, text),),
                at_wall_ns=record.wall_ns,
                cause=ending.kind.cause,
                writer=ending.writer,
                late=ending.late,
            )


def _near(one: LogRecord, other: LogRecord) -> bool:
    return one.line is not None and other.line is not None and 0 < other.line - one.line <= _NEAR


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Whether an exception says that a helper of its program has ended, which the rules judge."""
    text = f"{hit.type}: {hit.message}"
    return any(ending.kind in (Kind.CAUSE, Kind.WORKER, Kind.LOST, Kind.SUMMARY) for ending in endings(text))
