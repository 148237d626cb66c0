"""Group log lines on NPU failures into reports, by process.

Invariants:
    cann_reports.R1. Lines of one process (by its prefix, or by the pid that its message names) are never put into the
        report of another.
    cann_reports.R2. Lines long after a report begin a new one: the process went on.
    cann_reports.R3. What begins no report by itself belongs to the one that begins right below it.
    cann_reports.R4. A rank whose message names the pid of a worker is that worker; two ranks are never one for an equal
        pid, which processes of two hosts may have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.facts import ReportFacts
from livedbg.adapters.ascend.messages import Mark
from livedbg.adapters.ascend.reports import CAUSES, CODE, Fact, Report, exact, found_in, triggers
from livedbg.logs.decoder import LogDecoder
from livedbg.model import CauseClass, Diagnostic, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.text.patterns import lazy_re
from livedbg.text.shortening import shortened

_REPORT_NS: Final = 1_000_000_000  # changed reports are told at least this often while a large log is read
_LONGEST: Final = 4_000  # characters of a line that are read
_FAR: Final = 400  # lines after a report from which on it is another one
_ABOVE: Final = 4  # lines between what tells of a report and its beginning
_MOST: Final = 200  # reports of one log
_LINES: Final = 60  # of a report that are numbered
_TEXT: Final = 600  # characters of evidence
_WHY: Final = 160  # characters of a reason
_DLOG: Final = lazy_re(r"\[[A-Z]{4,8}\] ?[A-Z_]{2,12}\(\d{1,10},")
_HEAD: Final = 300  # characters in which the head of a line of CANN's logs stands
_PID: Final = lazy_re(r"\bpid=(\d{1,10})")
_MESSAGE_PID: Final = lazy_re(r"\[PID: (\d{1,10})\]")
_OF_RANK: Final = "rank "
_PROCESS: Final = lazy_re(r"(?:\S{1,80} )?(?:worker|engine core) ")  # behind its host's name, where that is known
_LINE_END: Final = lazy_re(r"(?<!,)\n|(?<=,)\n(?! {2,8}[a-z])")
_WRAP: Final = lazy_re(r"\n {2,8}")
_RANK: Final = lazy_re(r"\b[Rr]ank ?[\[=:]? ?(\d{1,6})\b")
_CHECKED: Final = " function error: "
"""In torch_npu's message of a call that failed; the next line of it has the pid (NPUException.h)."""
_WARNED: Final = "Warning: NPU warning"
_RAISED: Final = (
    "Error: ",
    "Traceback (most recent",
    "(PID:",
    "[ERROR]",
    "ERROR",
    "terminate called",
    "exits for this",
)


class _Log(Struct):
    name: str
    process: str
    reports: dict[str, Report] = field(default_factory=dict)
    current: str | None = None
    pids: dict[str, str] = field(default_factory=dict)  # whose pid it is
    workers: dict[str, str] = field(default_factory=dict)  # rank's prefix -> that of the worker whose pid it names
    told: int = 0
    above: tuple[int, str, Sequence[Fact]] = (
        0,
        "",
        (),
    )  # the last line, its writer and its facts, that began no report


class CannDecoder(LogDecoder):
    """Reports each NPU failure in a log as a diagnostic."""

    name = "ascend"

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._changed: dict[int, Report] = {}
        self._count = 0
        self._told_ns = 0
        self._fresh = False

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return triggers()

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        return exact()

    def opened(self, source: LogSource) -> None:
        name = PurePath(source.path).name if source.path else source.name
        self._logs[source.id] = _Log(name or source.id, source.process or "")

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        log = self._logs.get(record.source)
        if log is None:
            log = self._logs[record.source] = _Log(record.source.rpartition("/")[2], "")
        if record.severity is Severity.DEBUG:
            return (), ()
        warned = _WARNED in record.text
        raised = not warned and (
            record.severity.rank >= Severity.ERROR.rank or any(word in record.text for word in _RAISED)
        )
        rank = _RANK.search(record.text.partition("\n")[0]) if raised and "\n" in record.text else None
        links: dict[str, None] = {}
        writer = _as_worker(log, record, _writer(record))
        if writer and log.reports:
            _take_below(log, record, writer)
        for number, line, body in _lines(record.text):
            found = found_in(body)
            if not found and log.current is None:
                continue
            owner, mark = _owner(log, record, writer, found), self._mark(log, record, number, line)
            report = self._open(log, owner, record)
            if report is None and (any(not fact.weak or (raised and fact.kind != "possible") for fact in found)):
                report = self._begin(log, record.source, owner, mark)
                if report is not None:
                    self._learn(report, _right_above_it(log, mark.line or 0, writer), mark, raised=raised)
            if report is None and found:
                log.above = (mark.line or 0, writer, found)
            if report is not None:
                log.current = owner
                if found:
                    links[_id(report)] = None
                strong = any(not fact.weak for fact in found)
                self._learn(report, found, mark, body, raised=raised or (strong and not warned))
                if rank is not None:
                    report.fields.setdefault("rank", rank[1])
        if self._fresh or stamp["mono_ns"] - self._told_ns >= _REPORT_NS:
            return self._collect(stamp), tuple(links)
        return (), tuple(links)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        return self._collect(stamp)

    def _mark(self, log: _Log, record: LogRecord, number: int, line: str) -> Mark:
        exact = record.wall_ns is not None
        at = record.line_at(number)
        return Mark(log.name, line.strip()[:_TEXT], record.wall_ns, exact, log=record.source, line=at)

    def _learn(self, report: Report, found: Sequence[Fact], mark: Mark, line: str = "", *, raised: bool) -> None:
        for fact in found:
            report.learn(fact, mark)
        if not found:
            report.learn_below(line, mark)
        report.raised = report.raised or raised
        report.last = mark
        if found and mark.line is not None and len(report.lines) < _LINES:
            report.lines.append(mark.line)
        self._changed[report.number] = report

    @staticmethod
    def _open(log: _Log, owner: str, record: LogRecord) -> Report | None:
        """Return the open report that a line may belong to."""
        report = log.reports.get(owner)
        if report is None and owner and "" in log.reports and _near(log.reports[""], record):
            report = log.reports[owner] = log.reports.pop("")  # the pid stands in a later line of it
            report.owner = owner
        return report if report is not None and _near(report, record) else None

    def _begin(self, log: _Log, source: str, owner: str, mark: Mark) -> Report | None:
        if log.told >= _MOST:
            return None
        log.told += 1
        self._count += 1
        self._fresh = True
        report = log.reports[owner] = Report(self._count, source, owner, log.process, mark)
        return report

    def _collect(self, stamp: Stamp) -> list[Event]:
        self._fresh, self._told_ns = False, stamp["mono_ns"]
        changed, self._changed = self._changed, {}
        return [DiagnosticSeen(diagnostic=_diagnostic(report), **stamp) for report in changed.values()]


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a record, also of JSON-escaped text: number, line, text; what somebody wrapped is one."""
    number = 0
    for wrapped in _LINE_END.split(text):
        line = _WRAP.sub(" ", wrapped)
        for part in line.split("\\n") if "\\n" in line else (line,):
            yield number, line, part[:_LONGEST]
        number += 1 + wrapped.count("\n")


def _owner(log: _Log, record: LogRecord, writer: str, found: Sequence[Fact]) -> str:
    """Return the owner of a line: by its prefix, by the pid in it, or else the owner of the line before."""
    named = _PID.search(writer)
    if named is not None:
        log.pids.setdefault(named[1], writer)
    own = str(record.pid or "") if _DLOG.search(record.text, 0, _HEAD) else ""  # else it may be a wrapper's
    pid = next((fact.fields["pid"] for fact in found if "pid" in fact.fields), own)
    known = log.pids.get(pid, "")
    if not known and not writer and any(fact.kind == "torch" for fact in found) and _right_above(log, record):
        known = log.pids[pid] = log.current or ""  # torch_npu prints it below its message, whose prefix was another
    if known and not (known != writer and known.startswith(_OF_RANK) and writer.startswith(_OF_RANK)):
        return known
    if not pid and log.current is not None and log.current.removeprefix("(").startswith(f"{writer} "):
        return log.current  # a host's name alone: as without a prefix
    if writer and pid and len(log.pids) < _MOST:
        log.pids[pid] = writer
    return writer or (f"pid {pid}" if pid else log.current or "")


def _as_worker(log: _Log, record: LogRecord, writer: str) -> str:
    """Return for a rank's prefix that of the worker whose pid its message names: both are one process (R4)."""
    text = record.text if writer.startswith(_OF_RANK) else ""
    named, own = _MESSAGE_PID.search(text, 0, _LONGEST), _PID.search(writer)
    pid = named[1] if named is not None else own[1] if own is not None else ""
    known = log.pids.get(pid, "")
    rank, worker = (writer, known) if named is not None else (known, writer)
    if rank.startswith(_OF_RANK) and _PID.search(worker) and worker not in log.workers.values():
        log.workers.setdefault(rank, worker)
        log.pids[pid] = worker
        if rank in log.reports:
            log.reports[rank].fields.setdefault("pid", pid)
            if worker not in log.reports:
                log.reports[worker] = log.reports.pop(rank)
                log.reports[worker].owner = worker
    return log.workers.get(writer, writer)


def _right_above(log: _Log, record: LogRecord) -> bool:
    """Return whether the line above belongs to the current report, whose pid is not known yet."""
    report = log.reports.get(log.current or "")
    last = report.last if report is not None and "pid" not in report.fields else None
    return last is not None and last.line is not None and record.line == last.line + 1 and _CHECKED in last.text


def _right_above_it(log: _Log, line: int, writer: str) -> Sequence[Fact]:
    """Return what the same writer's lines right above the beginning of a report tell (R3)."""
    told, above_writer, facts = log.above
    return facts if above_writer == writer and 0 < line - told <= _ABOVE else ()


def _take_below(log: _Log, record: LogRecord, writer: str) -> None:
    """Give a writer the report begun by torch_npu's line right below its record: records of writers come late."""
    last = record.last_line if _CHECKED in record.text.rpartition("\n")[2] else None
    report = next((one for one in log.reports.values() if last is not None and one.first.line == last + 1), None)
    if report is not None and "torch" in report.kinds and report.owner.startswith("pid ") and writer not in log.reports:
        log.pids[report.fields["pid"]] = writer
        log.reports[writer] = log.reports.pop(report.owner)
        report.owner = writer


def _writer(record: LogRecord) -> str:
    worker = _PROCESS.match(record.writer) is not None and record.pid is not None
    return f"({record.writer} pid={record.pid})" if worker else record.writer


def _near(report: Report, record: LogRecord) -> bool:
    line = report.last.line if report.last is not None else None
    return record.line is None or not line or record.line - line <= _FAR


def _id(report: Report) -> str:
    digest = hashlib.blake2b(f"{report.source}\n{report.number}".encode(), digest_size=6).hexdigest()
    return f"diagnostic:ascend/cann-report/{digest}"


def _told(facts: ReportFacts) -> str:
    """Return what failed and why, as others quote it: `aclnnCopy failed: …`; without a reason, its kind."""
    what = facts.op or facts.kernel or facts.api
    why = " ".join((facts.words or facts.reason or facts.text).split()).strip(" .!")
    if not why:
        return f"CANN reports a failure ({facts.kind})."
    return f"{f'{what} failed' if what else 'CANN reports'}: {shortened(why, _WHY)}."


def _diagnostic(report: Report) -> Diagnostic:
    facts = report.facts
    return Diagnostic(
        id=_id(report),
        system="ascend",
        code=CODE,
        severity=Severity.ERROR,
        sentence=_told(facts),
        entities=(report.process,) if report.process else (),
        facts=facts,
        evidence=tuple(mark.evidence() for mark in report.marks),
        at_wall_ns=report.first.wall_ns,
        cause=CAUSES.get(report.kind, CauseClass.DEVICE),
        writer=f"rank {facts.rank}" if facts.rank else "",
    )
