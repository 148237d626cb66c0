"""The adapter for torch.compile's logs: a decoder of its traces by process, and roles of compile workers.

Structured traces (`TORCH_TRACE`) have a line with header and JSON, then a tab-indented payload. Source:
torch/_logging/_internal.py (trace_structured) and torch/_dynamo/utils.py (ChromiumEventLogger) of 2.6 to 2.15, which
write the same names. Unknown additions are ignored.

Invariants:
    compile_logs.D1. A payload is never taken for an entry, and a line of another program never for one of torch.
    compile_logs.T1. A line that is truncated, not JSON, or of an unknown kind changes nothing, and the rest is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct

from livedbg.adapters.pytorch.aoti.log_decoder import PrintedDecoder
from livedbg.adapters.pytorch.traces import text
from livedbg.adapters.pytorch.traces.emission import Emission
from livedbg.adapters.pytorch.traces.program import Place, Program
from livedbg.adapters.pytorch.traces.text import BreakReader, LeftOut
from livedbg.adapters.pytorch.traces.workers import role_events
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_TRIGGERS: Final = (
    b'{"chromium_event": ', b'{"dynamo_start": ', b'{"compilation_metrics": ', b'{"str": [', b'"recompile_reasons"',
    b'"dynamo_graph_break_reason"',
)  # fmt: skip
"""What the lines contain that are read."""

_STRINGS: Final = 20_000
_MESSAGE: Final = 400
_REASON: Final = 800  # of a guard: it may quote the code and give a hint
_NAME: Final = lazy_re(r'^"name": "([^"\\]{1,200})"', re.MULTILINE)
_PH: Final = lazy_re(r'^"ph": "([A-Za-z])"', re.MULTILINE)
_TS: Final = lazy_re(r'^"ts": (\d{1,20}(?:\.\d{1,12})?)', re.MULTILINE)
_FAILED: Final = lazy_re(r'"fail_type": "(\w{1,200})"(?:, "fail_reason": "((?:[^"\\]|\\.){0,2000}))?')
_LIMIT: Final = lazy_re(
    r"\b(?P<setting>(?:accumulated_)?(?:recompile|cache_size)_limit)\b.{0,80}?\(currently set to (?P<number>\d{1,9})\)"
)


class _Frame(Struct):
    line: int = 0
    name: str = ""
    filename: int | str = 0


class _Start(Struct):
    stack: tuple[_Frame, ...] = ()


class _Artifact(Struct):
    name: str = ""


class _Metrics(Struct):
    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: int | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    recompile_reason: str | None = None


class _Entry(Struct):
    """The JSON of a header."""

    chromium_event: dict[str, Any] | None = None
    dynamo_start: _Start | None = None
    artifact: _Artifact | None = None
    compilation_metrics: _Metrics | None = None
    str_: tuple[str, int] | None = msgspec.field(default=None, name="str")
    frame_id: int | None = None
    frame_compile_id: int | None = None
    compiled_autograd_id: int | None = None
    attempt: int | None = None
    rank: int | None = None

    @property
    def key(self) -> str:
        """Return `0/1`, in compiled autograd `!0/0/1`; "" for none."""
        parts = [f"!{self.compiled_autograd_id}"] if self.compiled_autograd_id is not None else []
        if self.frame_id is not None and self.frame_compile_id is not None:
            parts += [str(self.frame_id), str(self.frame_compile_id)]
        return "/".join(parts)


class _Arguments(Struct):
    compile_id: str | None = None


class _Timed(Struct):
    """The payload of a `chromium_event`."""

    name: str
    ph: str
    ts: float = 0.0  # microseconds of the wall clock
    args: _Arguments | None = None


class Structured:
    """Reads the entries of one trace."""

    def __init__(self) -> None:
        self._strings: dict[int, str] = {}

    def take(self, text: str, payload: str, wall_ns: int | None, program: Program) -> None:
        """Process one entry: the header's JSON and time, and the lines below without their tabs."""
        try:
            entry = msgspec.json.decode(text, type=ready(_Entry))
        except (msgspec.DecodeError, UnicodeError):
            self._cut(text, wall_ns, program)
            return
        if entry.rank is not None:
            program.rank = entry.rank
        if entry.chromium_event is not None:
            _timed(entry, payload, wall_ns, program)
        elif entry.str_ is not None:
            if len(self._strings) < _STRINGS:
                self._strings[entry.str_[1]] = clean_line(entry.str_[0], _MESSAGE)
        elif entry.dynamo_start is not None:
            self._starts(entry, entry.dynamo_start, program)
        elif entry.compilation_metrics is not None:
            _metrics(entry.key, entry.compilation_metrics, wall_ns, program)
        elif entry.artifact is not None and entry.artifact.name == "recompile_reasons":
            program.recompiles(entry.key, _first_reason(payload), wall_ns)
        elif entry.artifact is not None and entry.artifact.name == "dynamo_graph_break_reason":
            reader = BreakReader(entry.key, wall_ns)
            for line in payload.split("\n"):
                reader.take(line)
            reader.tell(program)

    def _starts(self, entry: _Entry, start: _Start, program: Program) -> None:
        place = Place()
        if start.stack:
            frame = start.stack[-1]
            file = frame.filename if isinstance(frame.filename, str) else self._strings.get(frame.filename, "")
            place = Place(clean_line(frame.name, 200), clean_line(file, _MESSAGE), frame.line)
        program.starts(entry.key, place, entry.attempt or 0)

    @staticmethod
    def _cut(text: str, wall_ns: int | None, program: Program) -> None:
        """Process a truncated long line: a failure is at its beginning, before the configuration."""
        failed = _FAILED.search(text) if text.startswith('{"compilation_metrics": ') else None
        key = re.search(r'"compile_id": "([!\d/]{1,40})"', text)
        if failed is not None and key is not None:
            reason = (failed[2] or "").encode("ascii", "replace").decode("unicode_escape", "replace")
            _failed(key[1], failed[1], reason, wall_ns, program)


def _timed(entry: _Entry, payload: str, wall_ns: int | None, program: Program) -> None:
    try:
        event = msgspec.json.decode(payload, type=ready(_Timed))
    except (msgspec.DecodeError, UnicodeError):
        name, ph, ts = _NAME.search(payload), _PH.search(payload), _TS.search(payload)
        if name is None or ph is None:
            return
        event = _Timed(name[1], ph[1], float(ts[1]) if ts is not None else 0.0)
    if event.ph not in ("B", "E"):
        return
    said = event.args.compile_id if event.args is not None else None
    key = entry.key or (said if said and re.fullmatch(r"[!\d/]{1,40}", said) else "")
    at_ns = int(event.ts * 1_000) if 0 < event.ts < 1e16 else wall_ns or 0
    program.seen_exactly(wall_ns, at_ns)
    name_ = clean_line(event.name, 200)
    if event.ph == "B":
        program.begins(key, name_, at_ns)
    else:
        program.ends(key, name_, at_ns)


def _metrics(key: str, said: _Metrics, wall_ns: int | None, program: Program) -> None:
    if said.co_name:
        file = clean_line(said.co_filename or "", _MESSAGE)
        program.starts(key, Place(clean_line(said.co_name, 200), file, said.co_firstlineno or 0))
    if said.recompile_reason:
        program.recompiles(key, clean_line(said.recompile_reason.split("\n")[0], _REASON), wall_ns)
    if said.fail_type:
        _failed(key, said.fail_type, said.fail_reason or "", wall_ns, program)


def _failed(key: str, error: str, reason: str, wall_ns: int | None, program: Program) -> None:
    limit = _LIMIT.search(reason)
    if limit is None and "recompile limit exceeded" not in reason:
        lines = [line.strip() for line in reason.split("\n") if line.strip()][:2]
        program.fails(key, clean_line(error, 200), clean_line(" ".join(lines), _MESSAGE), wall_ns)
        return
    setting = limit["setting"] if limit is not None else "recompile_limit"
    program.reaches_limit(key, setting, int(limit["number"]) if limit is not None else 0)


def _first_reason(payload: str) -> str:
    """Return the failed guard: a text, or the first of a list of texts."""
    try:
        reasons = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError):
        reasons = payload.lstrip("[\n ").lstrip('"')
    first = reasons[0] if isinstance(reasons, list) and reasons else reasons
    return clean_line(first.split("\n")[0].strip(), _REASON) if isinstance(first, str) else ""


_HEADER: Final = lazy_re(
    r"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} (?P<pid>\d{1,18}) (?P<file>[^\s:]{1,300}):\d{1,9}\] (?P<text>.*)"
)
_OURS: Final = lazy_re(r"(?:.*/)?torch/")
_PROGRAMS: Final = 4_096
_APART_NS: Final = 24 * 3600 * 1_000_000_000
"""Records of one pid that lie further apart are of two processes."""


class CompileDecoder(LogDecoder):
    """Decodes TORCH_TRACE's logs and the text of TORCH_LOGS."""

    name = "torch.compile"
    triggers: ClassVar[tuple[bytes, ...]] = (*_TRIGGERS, *text.TRIGGERS)

    def __init__(self) -> None:
        self._sources: dict[str, LogSource] = {}
        self._programs: dict[int, list[Program]] = {}
        self._structured: dict[str, Structured] = {}
        self._text: dict[tuple[str, int], text.Text] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._writers: dict[str, set[int]] = {}
        self._changed: dict[str, Program] = {}
        self._emission = Emission()

    def opened(self, source: LogSource) -> None:
        self._sources[source.id] = source

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Process one record; everything but crash news is returned by `flush`."""
        events: list[Event] = []
        for header, payload in _entries(record.text):
            program = self._program(record, int(header["pid"]), header["text"].startswith("{"))
            left = self._left_out.setdefault(record.source, LeftOut())
            if (said := left.take(header[0], header["text"], record)) is not None:
                events.append(DiagnosticSeen(diagnostic=said, **stamp))
            if program is None:
                continue
            if record.rank is not None:
                program.rank = record.rank
            if header["text"].startswith("{"):
                reader = self._structured.setdefault(record.source, Structured())
                reader.take(header["text"], payload, record.wall_ns, program)
            else:
                lines = self._text.setdefault((record.source, program.pid), text.Text())
                lines.take(header["text"], record.wall_ns, program)
            self._changed[program.name] = program
        return events, ()

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        changed, self._changed = self._changed, {}
        for program in changed.values():
            program.process = self._owner(program)
        return list(self._emission.events(changed.values(), self._sources, stamp))

    def _program(self, record: LogRecord, pid: int, traced: bool) -> Program | None:
        """Return the process of a record: by its pid; two traces with one pid are of two processes."""
        wall_ns = record.wall_ns or 0
        known = self._programs.setdefault(pid, [])
        for program in reversed(known):
            apart = abs(wall_ns - program.last_wall_ns) > _APART_NS
            if record.source in program.sources or (not apart and not (traced and program.trace)):
                break
        else:
            if sum(map(len, self._programs.values())) >= _PROGRAMS:
                return None
            program = Program(f"{pid}.{len(known) + 1}" if known else str(pid), pid, wall_ns)
            known.append(program)
        program.sources[record.source] = None
        program.seen(wall_ns)
        if traced and not program.trace:
            program.begin_trace(record.source)
        self._writers.setdefault(record.source, set()).add(pid)
        return program

    def _owner(self, program: Program) -> str:
        """Return the process that has the log open, if only one writes to it: ranks share their launcher's output."""
        alone = (self._sources.get(source) for source in program.sources if len(self._writers[source]) == 1)
        return next((source.process for source in alone if source is not None and source.process), "")


def _entries(record: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the entries of a record: header, and the tab-indented payload."""
    header, payload = None, []
    for line in record.split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if header is not None:
            yield header, "\n".join(payload)
        header, payload = _HEADER.match(line), []
        if header is not None and not _OURS.match(header["file"]):
            header = None
    if header is not None:
        yield header, "\n".join(payload)


_ONCE_S: Final = 0.1  # a session that samples once is over soon
_ONCE_LOOKS: Final = 20
_POLL_S: Final = 2.0


class CompileTracesAdapter(PolledAdapter):
    """Compilations of torch.compile, from TORCH_TRACE and TORCH_LOGS."""

    name = "compile-traces"
    title = "Traces of torch.compile"
    sees = (
        "compilations of torch.compile, their phases, graph breaks, recompilations and failures, from its logs; NaN in "
        "values that its code prints"
    )
    cost = "reads log lines that are read anyway"

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return CompileDecoder(), PrintedDecoder()

    async def begin(self, context: Context) -> bool:
        """Settle at once: nobody should wait for missing logs."""
        context.settled()
        return bool(context.request.processes)

    async def look(self, context: Context) -> float:
        """Watch for compile workers; the decoder does the rest."""
        context.emit(*role_events(context.snapshot(), context.stamp()))
        return _POLL_S

    async def again(self, context: Context) -> bool:
        """In a session that samples once, sample a few more times."""
        self._looks += 1
        if context.request.once:
            await context.sleep(_ONCE_S)
        return context.request.once and self._looks < _ONCE_LOOKS
