"""NVFUSER_TRACE: which passes began and have not ended, by thread, read while the file is being written.

The form: NVIDIA/Fuser csrc/instrumentation.cpp: one event a line, unbuffered, `B` as a scope begins and `E` as it is
left (by an exception too), microseconds since the trace's start. `tid` is the lower half of `pthread_self()`.

Invariants:
    trace.T1. Any bytes can be fed, in pieces of any size: what is no event is passed over.
    trace.T2. Memory depends on the threads and on how deep their passes lie in each other, not on the length of the
        file.
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
    """A pass that began and has not ended; `begun_us` is since the start of the trace."""

    name: str
    begun_us: int


class ThreadTrace(Struct):
    """One thread of a trace.

    Attributes:
        tid: the lower half of its `pthread_self()`.
        open: the passes that it is in, outermost first.
        last_us: time of its newest event.
        last: name of the pass of that event.
        events: how many it had.
        unmatched: ends without a beginning (the file's beginning is missing).
    """

    pid: int
    tid: int
    open: list[OpenPass] = field(default_factory=list)
    last_us: int = 0
    last: str = ""
    events: int = 0
    unmatched: int = 0


def is_trace(head: bytes) -> bool:
    """Whether a file that begins so is such a trace, be it without its first lines."""
    return head.startswith(_HEAD) or len(_EVENT.findall(head[:4096])) >= 3


class TraceReader:
    """Takes a trace in pieces.

    Attributes:
        threads: by (pid, tid).
        ended: the process ended the trace as it exited.
        events: how many there were.
        last_us: time of the newest event.
        dropped: threads beyond a number that nobody has.
    """

    def __init__(self) -> None:
        self.threads: dict[tuple[int, int], ThreadTrace] = {}
        self.ended = False
        self.events = 0
        self.last_us = 0
        self.dropped = 0
        self._rest = b""
        self._names: dict[bytes, str] = {}

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        piece = self._rest + data
        end = 0
        for match in _EVENT.finditer(piece):
            end = match.end()
            name, kind, pid, tid, at = match.groups()
            self._take(name, kind, int(pid), int(tid), int(at))
        cut = max(end, piece.rfind(b"\n") + 1, len(piece) - _REST)
        self._rest = piece[cut:]

    def _take(self, raw: bytes, kind: bytes, pid: int, tid: int, at_us: int) -> None:
        self.events += 1
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
                self.dropped += 1
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
        thread.unmatched += 1
