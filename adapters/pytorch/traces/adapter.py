"""The adapter for torch.compile's logs: a decoder of its traces by process, and roles of compile workers.

Invariants:
    compile_logs.D1. A payload is never taken for an entry, and a line of another program never for one of torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from livedbg.adapters.pytorch.aoti.log_decoder import PrintedDecoder
from livedbg.adapters.pytorch.traces import left_out, structured, text
from livedbg.adapters.pytorch.traces.emission import Emission
from livedbg.adapters.pytorch.traces.left_out import LeftOut
from livedbg.adapters.pytorch.traces.program import Program
from livedbg.adapters.pytorch.traces.workers import role_events
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import DiagnosticSeen, Event, Stamp
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.text.patterns import lazy_re

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
    triggers: ClassVar[tuple[bytes, ...]] = (*structured.TRIGGERS, *text.TRIGGERS, *left_out.TRIGGERS)

    def __init__(self) -> None:
        self._sources: dict[str, LogSource] = {}
        self._programs: dict[int, list[Program]] = {}
        self._structured: dict[str, structured.Structured] = {}
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
                reader = self._structured.setdefault(record.source, structured.Structured())
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
