"""Reports of sources beside the entities: log records, diagnostics, exceptions, intrusions, and their own health.

The invariants of livedbg.model.entities hold for these values too.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from livedbg.model.entities import Frame
from livedbg.model.facts import MessageFacts, facts_of
from livedbg.model.states import CauseClass, Severity, SourceHealth

UNSEEN_RUNTIME: Final = "unseen-runtime"
"""`SourceStatus.code` of a process whose threads are those of a runtime that livedbg does not inspect."""

POLLS: Final = "polling-runtime"
"""The same, and they use CPU time while they wait."""

OUT_OF_TIME: Final = "out-of-time"
"""Code of a status: a time limit ended the first look of a source before it was complete."""

NO_LOG: Final = "no-log"
"""`SourceStatus.code` of a file or a folder that was named and holds no log."""

SOURCE_FAILED: Final = "source-failed"
"""`SourceStatus.code` of an adapter or a log decoder that an error has ended."""

FAULT: Final = "fatal-python-error"
"""Of `log: KIND` of an exception's catchpoint: what ended a process as Python's faulthandler tells it, ..."""

FAILED_TESTS: Final = "failed-tests"
"""... and a run of tests in which tests failed."""

TESTS_WENT_ON: Final = "the test run went on after it"
"""What `ExceptionHit.survived` says of a failed test that its runner has named, and of what a test threw."""

HANG_SEEN: Final = "diagnostic:livedbg/hang"
"""`Diagnostic.id` of the hang that was found before the job ended; its attribute `state` is that of the verdict."""

NO_ACCESS: Final = frozenset({"other-user", "ptrace-scope", "not-dumpable", "container", "hidepid"})
"""`SourceStatus.code` of a process that the kernel denies access to."""


class LogSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A log that is being read.

    Attributes:
        id: `log:HOST/PATH`, or `log:HOST/PID/stdout`.
        name: short name for the screen (`scheduler`, `device-0`, `stderr`).
        format: recognised format (`syslog`, `glog`, `plain`, …).
        lines: lines read so far, None while they are still being counted.
        last_wall_ns: the newest time stamp of its records.
        undated: the year or the day of its times is a guess: their differences count, they themselves are not shown.
        errors: records of severity ERROR or worse that no decoder understands.
        first_error_line: number of the line in which the first of them begins, if known.
        first_error: the first line of the first of them.
        last_error: the first line of the last of them.
        unread: bytes of a big log that were not searched for errors, because there were too many before.
        pending: bytes not read yet; for a compressed log 1 if there is more.
        rank: of the job, if the name of the log or of a folder has it.
        host: name of the host, node or pod, if a name has it.
        attempt: number of the job's start that wrote it, if a folder has it.
    """

    id: str
    name: str
    path: str | None = None
    format: str | None = None
    lines: int | None = None
    size: int | None = None
    process: str | None = None
    last_wall_ns: int | None = None
    undated: bool = False
    errors: int = 0
    first_error_line: int | None = None
    first_error: str = ""
    last_error: str = ""
    unread: int = 0
    pending: int = 0
    rank: int | None = None
    host: str = ""
    attempt: int | None = None


class LogRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A record of a log; `text` may hold several lines, joined by newline.

    Attributes:
        line: number of its first line in the source, from 1.
        offset: byte offset of its first line.
        lines: numbers of all its lines, if they are not consecutive or several share a line of the log.
        links: entities that it mentions.
        head: number of leading characters that form a header (time, severity, process), parsed into the other fields.
        writer: which writer of a shared log, by the tag of a launcher or collector: `rank 3`, `worker TP1`, `node12`;
            the tag is not in the text.
        rank: of the job, from the tag.
        host: name of the host, node or address, from the tag.
        stream: `stdout` or `stderr`, from the tag.
        container: name of the container, pod or service, from the tag.
    """

    source: str
    text: str
    severity: Severity = Severity.INFO
    wall_ns: int | None = None
    mono_ns: int | None = None
    line: int | None = None
    offset: int | None = None
    pid: int | None = None
    tid: int | None = None
    links: tuple[str, ...] = ()
    head: int = 0
    writer: str = ""
    rank: int | None = None
    host: str = ""
    stream: str = ""
    container: str = ""
    lines: tuple[int, ...] = ()

    def line_at(self, number: int) -> int | None:
        """Return the number in the log (from 1) of a line of the text (from 0), or None if not known."""
        if self.line is None:
            return None
        return self.lines[min(number, len(self.lines) - 1)] if self.lines else self.line + number

    @property
    def last_line(self) -> int | None:
        """Return the number in the log of the text's last line, or None if not known."""
        return self.line if "\n" not in self.text else self.line_at(self.text.count("\n"))

    def place(self, name: str, number: int = 0) -> str:
        """Return `name:LINE` of a line of the text; the name alone if the line's number is not known."""
        line = self.line_at(number)
        return name if line is None else f"{name}:{line}"


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Evidence for a claim.

    Attributes:
        kind: `memory`, `proc`, `log`, `file`, `stack`, `counter`, `inference`.
        source: where it was read, if not in a file: `futex 0x7f12…`, `/proc/4711/task/4712/syscall`.
        file: name of the log, or path of the file.
        line: number of the line in it, from 1; None if not known, or if the whole file is meant.
        log: id of the LogSource, for a line of a log.
    """

    kind: str
    text: str
    source: str = ""
    file: str = ""
    line: int | None = None
    at_wall_ns: int | None = None
    log: str = ""

    @classmethod
    def of_record(cls, record: LogRecord, file: str, text: str, number: int = 0) -> Evidence:
        """Make evidence of a line of a log record, by its index in the record's text."""
        return cls(
            kind="log", text=text, file=file, line=record.line_at(number), at_wall_ns=record.wall_ns, log=record.source
        )

    @property
    def place(self) -> str:
        """Return the place of the evidence, as users see it: `err.txt:214`, `futex 0x7f12…`."""
        if not self.file:
            return self.source
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Diagnostic(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A runtime's statement about its own health, from its log or its files.

    Attributes:
        system: name of the system, `python`, …
        code: stable word for the kind of statement, lower case with dashes, e.g. `timeout-exit`, `stall-summary`,
            `fatal`, `terminate`, `traceback`, `run-complete`.
        facts: its typed fields (livedbg.model.facts).
        attributes: others, as text (`sub_class`, `error_code`, …).
        late: it was written after the end.
        cause: how near it is to the cause of an end; None if it is about no end. While an error is not `resolved`, the
            verdict is never better than `unknown` (rule `error-reported`); with a cause it is `crashed` if no process
            lives.
        writer: which writer of a shared log: `rank 3`, `worker TP1`, or "".
        does: the sentence without its subject: `timed out in all_reduce` of `Rank 3 timed out in all_reduce`.
        stack: where it says that a thread is, innermost frame first.
    """

    id: str
    system: str
    code: str
    severity: Severity
    sentence: str
    entities: tuple[str, ...] = ()
    facts: Any = None
    attributes: dict[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    at_wall_ns: int | None = None
    cause: CauseClass | None = None
    writer: str = ""
    does: str = ""
    stack: tuple[Frame, ...] = ()
    resolved: bool = False
    late: bool = False

    @property
    def message(self) -> MessageFacts:
        """Return the facts of the log message."""
        return facts_of(self.facts, MessageFacts)

    @property
    def log(self) -> str:
        """Return the id of the log that shows it, or ""."""
        return self.evidence[0].log if self.evidence else ""


CUT_OFF: Final = "the traceback is cut off"
"""The message of an exception of which the last line is missing."""


class ExceptionHit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception, failure or abort.

    Attributes:
        at_wall_ns: when it was seen last.
        history: occurrences in each second up to the one of `at_wall_ns`, the newest last.
        count: how many times the same (type, message, stack) was seen.
        catchpoint: the catchpoint (or log rule) that caught it.
        line: number of the last line of its record.
        first_line: number of its first line.
        raised_line: number of the line that names the exception.
        related: its consequence, or the exception being handled: `it led to RuntimeError: outer`.
        survived: evidence that the program went on after it, or "".
        cause: how near it is to the cause of an end; None: derived from type and message.
        writer: which writer of a shared log: `rank 3`, `worker TP1`, or "".
        rank: of the process, in the job that its runtime knows.
        operation: operation of a runtime that the thread was in: `all_reduce #5 of group 0`; "" for none.
        sent: for a signal: another process sent it.
        fatal: for a signal: nothing handles it, and it ends the process.
        deep: for a signal: about so many frames were on the stack that it overflowed; 0: it did not overflow.
        logged: a logger wrote it, with a header: the program caught it.
    """

    id: str
    type: str
    message: str
    thread: str | None = None
    process: str | None = None
    stack: tuple[Frame, ...] = ()
    at_wall_ns: int | None = None
    catchpoint: str | None = None
    count: int = 1
    paused_ms: float = 0.0
    first_wall_ns: int | None = None
    history: tuple[int, ...] = ()
    partial: bool = False
    source: str | None = None
    line: int | None = None
    first_line: int | None = None
    raised_line: int | None = None
    related: str = ""
    survived: str = ""
    cause: CauseClass | None = None
    writer: str = ""
    rank: int | None = None
    operation: str = ""
    logged: bool = False
    sent: bool = False
    fatal: bool = False
    deep: int = 0


class Intrusion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An intrusive action on the target (`attach`, `glance`, `catchpoint`, `probe`, …), for the ledger."""

    target: str
    what: str
    why: str
    paused_ns: int = 0
    stops: int = 0
    measured: bool = True
    at_wall_ns: int | None = None


class SourceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Health of an adapter's view of a target, for the user.

    Attributes:
        source: adapter's name (`proc`, `python`, `native`, `logs`, …).
        target: entity id or path that it reads.
        code: stable word for the situation (`no-permission`, `zombie`, `gdb-missing`, …), or "".
    """

    source: str
    target: str
    health: SourceHealth
    code: str = ""
    sentence: str = ""
    remedy: str = ""
