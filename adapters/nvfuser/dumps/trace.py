"""Read an NVFUSER_TRACE file while it is being written: the open passes of each thread.

The form: NVIDIA/Fuser csrc/instrumentation.cpp: one event a line, unbuffered, `B` at the beginning of a scope and `E`
at its end (by an exception too), microseconds since the trace's start. `tid` is the lower half of `pthread_self()`.

Invariants:
    trace.T1. Any bytes can be fed, in pieces of any size: anything that is no event is ignored.
    trace.T2. Memory depends on the number of threads and the nesting of passes, not on the length of the file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_EVENT: Final = lazy_re(
    rb'\{ "name": "([^"\n]{0,500})", "ph": "([BEI])", "pid": (\d{1,10}), "tid": (\d{1,10}), "ts": (\d{1,18}) \}'
)
_HEAD: Final = b'{\n"traceEvents": [\n{ "name": "TRACE_START"'
_DEPTH: Final = 5_000
_THREADS: Final = 5_000
_REST: Final = 1_000  # bytes that an event has at most


class OpenPass(NamedTuple):
    """An open pass; `begun_us` is since the start of the trace."""

    name: str
    begun_us: int


class ThreadTrace(Struct):
    """One thread of a trace.

    Attributes:
        tid: the lower half of its `pthread_self()`.
        open: its open passes, outermost first.
        last_us: time of its newest event.
        last: pass of that event.
    """

    pid: int
    tid: int
    open: list[OpenPass] = field(default_factory=list)
    last_us: int = 0
    last: str = ""
    events: int = 0


def is_trace(head: bytes) -> bool:
    """Return whether a file with this head is such a trace, even without its first lines."""
    return head.startswith(_HEAD) or len(_EVENT.findall(head[:4096])) >= 3


class TraceReader:
    """Reads a trace in pieces.

    Attributes:
        threads: by (pid, tid).
        ended: the process ended the trace at its exit.
        last_us: time of the newest event.
    """

    def __init__(self) -> None:
        self.threads: dict[tuple[int, int], ThreadTrace] = {}
        self.ended = False
        self.last_us = 0
        self._rest = b""
        self._names: dict[bytes, str] = {}

    def feed(self, data: bytes) -> None:
        piece = self._rest + data
        end = 0
        for match in _EVENT.finditer(piece):
            end = match.end()
            name, kind, pid, tid, at = match.groups()
            self._take(name, kind, int(pid), int(tid), int(at))
        cut = max(end, piece.rfind(b"\n") + 1, len(piece) - _REST)
        self._rest = piece[cut:]

    def _take(self, raw: bytes, kind: bytes, pid: int, tid: int, at_us: int) -> None:
        self.last_us = max(self.last_us, at_us)
        if kind == b"I":
            self.ended = raw == b"TRACE_END"
            return
        name = self._names.get(raw)
        if name is None:
            name = clean_line(raw.decode("utf-8", "replace"))
            if len(self._names) < _THREADS:
                self._names[raw] = name
        thread = self.threads.get((pid, tid))
        if thread is None:
            if len(self.threads) >= _THREADS:
                return
            thread = self.threads[pid, tid] = ThreadTrace(pid, tid)
        thread.events += 1
        thread.last_us, thread.last = at_us, name
        if kind == b"B":
            if len(thread.open) < _DEPTH:
                thread.open.append(OpenPass(name, at_us))
            return
        for number in range(len(thread.open) - 1, -1, -1):
            if thread.open[number].name == name:
                del thread.open[number:]
                return
