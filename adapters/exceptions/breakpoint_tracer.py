"""Trace functions by debug registers, which needs no rights beyond those to trace the process.

A perf event of type `breakpoint` gives registers and the top of the stack at each call. The kernel owns it: nothing is
ptraced or stopped, no byte of the target changes, and it is gone with its last descriptor, however its owner ends. By
contrast, a ptrace breakpoint outlives a killed tracer in the registers, and the next call then ends the target by
SIGTRAP.

Limits compared with probe events (livedbg.probes.tracefs):
  - four addresses for each thread, fewer if somebody else uses some;
  - every call comes to us: the kernel can't filter types;
  - a message is read just after the call: it is left out if the thread has called again by then, or has freed the
    exception and its text is no text any more;
  - a process that the target starts is not traced after its exec, which the note mentions.

The data that a probe event has the kernel read at the call (livedbg.adapters.exceptions.calls, ARGUMENTS) is read by
ourselves: just after the call, or while the thread is stopped at it.

Invariants:
    breakpoint_tracer.R1. Threads born later are traced from their first instruction: the events are inherited.
    breakpoint_tracer.R2. A message that may be a later exception's is not shown, nor the remains of a freed one.
    breakpoint_tracer.R3. For an unwanted exception, only the type is read, and that once for each type.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from livedbg.adapters.exceptions.calls import Call, CallReader, TracedCall
from livedbg.linux import memory, procfs
from livedbg.linux.registers import CALL_ARGUMENTS
from livedbg.model.catchpoints import Moment
from livedbg.probes.functions import FunctionNotFound
from livedbg.probes.newest import Newest
from livedbg.probes.perf import BREAKPOINT, PerfEvents, Source
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, find_places
from livedbg.probes.tracefs import Field
from livedbg.probes.tracer import ProcessTree, Tracer
from livedbg.text.patterns import lazy_re

_TEXT: Final = 2048  # bytes of a message or argument that are read
_ADJUSTED, _TYPE = -8, -80  # from the unwind header: adjustedPtr and exceptionType (livedbg.adapters.exceptions.calls)


def read_call(pid: int, arguments: Sequence[int], moment: Moment) -> tuple[bytes, Mapping[str, Field]]:
    """Return a call's raw data and fields as of a probe event, from the registers rdi, rsi, rdx, rcx (System V ABI)."""
    numbers: dict[str, int] = {}
    texts: dict[str, bytes] = {}
    if moment is Moment.CALL:
        for number, argument in enumerate(arguments):
            numbers[f"a{number}"] = argument
            texts[f"s{number}"] = _text(pid, argument)
    elif moment is not Moment.RETHROW:
        thrown, type_info = arguments[0], arguments[1]
        if moment is Moment.CATCH:
            thrown, type_info = (_word(pid, arguments[0] + offset) for offset in (_ADJUSTED, _TYPE))
        value = _word(pid, thrown)
        numbers = {"type_info": type_info, "value": value}
        texts = {
            "type": _text(pid, _word(pid, type_info + 8)),
            "message": _text(pid, _word(pid, thrown + 8)),
            "text": _text(pid, value),
        }
    return _as_fields(numbers, texts)


def _as_fields(numbers: Mapping[str, int], texts: Mapping[str, bytes]) -> tuple[bytes, Mapping[str, Field]]:
    fields: dict[str, Field] = {}
    raw = bytearray()
    for name, number in numbers.items():
        fields[name] = Field(name, len(raw), 8, text=False)
        raw += struct.pack("<Q", number)
    start = len(raw) + 4 * len(texts)
    tail = b""
    for name, text in texts.items():
        fields[name] = Field(name, len(raw), 4, text=True)
        raw += struct.pack("<HH", start + len(tail), len(text))
        tail += text
    return bytes(raw) + tail, fields


def _word(pid: int, address: int) -> int:
    try:
        return int(struct.unpack("<Q", memory.read(pid, address, 8))[0])
    except (OSError, OverflowError):
        return 0


def _text(pid: int, address: int) -> bytes:
    if not address:
        return b""
    try:
        return memory.read_text(pid, address, _TEXT)
    except (OSError, OverflowError):
        return b""


DEBUG_REGISTERS: Final = 4
"""Those that hold addresses (Intel SDM 3B, 19.2.1)."""

_IDLE_S: Final = 0.2
_LIBRARIES_S: Final = 1.0
_UNWANTED: Final = 4096
_STACK: Final = 16 << 10
_ARGUMENTS: Final = CALL_ARGUMENTS[:4]
_SECOND: Final = _ARGUMENTS[1]
_NO_TEXT: Final = lazy_re("[\ufffd\u2400-\u2408\u240e-\u2421]")
"""What cleaning makes of bytes that are no text: glibc's malloc puts pointers where freed text was."""


@dataclass(slots=True)
class _Part:
    """Places that were found at one time, and samples not described yet."""

    events: PerfEvents
    places: list[Found]
    rest: list[Sample] = field(default_factory=list)


@dataclass(slots=True)
class _Process:
    """An initial process, whose children are traced with it, its searched files and traced places."""

    searched: set[tuple[str, int]] = field(default_factory=set)
    places: list[Found] = field(default_factory=list)


class BreakpointTracer(Tracer):
    """Traces the calls of some functions; used as `FunctionTracer` is.

    Args:
        moment: meaning of the calls.
        wanted: returns whether a call matches, by its type; called in the tracer's thread.
        report: called in the tracer's thread with the matching calls, in time order.
        follow: include forked children.
    """

    def __init__(
        self,
        pid: int,
        moment: Moment,
        functions: Sequence[str],
        *,
        wanted: Callable[[Call], bool],
        report: Callable[[Sequence[TracedCall]], None],
        follow: bool,
    ) -> None:
        super().__init__()
        self._tree = ProcessTree(pid, follow)
        self._moment = moment
        self._functions = tuple(functions)
        self._calls = CallReader(moment)
        self._wanted = wanted
        self._report = report
        self._processes: dict[int, _Process] = {}
        self._parts: list[_Part] = []
        self._unwanted: Newest[tuple[int, int], None] = Newest(_UNWANTED)  # processes and types

    def _arm(self) -> None:
        """Set the breakpoints, with left-out files in `counts`; raise OSError if all registers are in use (ENOSPC)."""
        self._processes = {pid: _Process() for pid in self._tree.pids()}
        self._find()
        if self._moment is Moment.CALL and not self._parts:
            raise FunctionNotFound(", ".join(self._functions))

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files with traced functions, as the process names them."""
        places = [found for process in list(self._processes.values()) for found in list(process.places)]
        return tuple(dict.fromkeys(found.file for found in places))

    def _find(self) -> None:
        """Trace new places; raise OSError if it fails for the process itself."""
        for pid, process in list(self._processes.items()):
            try:
                self._find_in(pid, process)
            except OSError:
                if pid == self._tree.pid:
                    raise
                del self._processes[pid]  # it has ended, or is somebody else's

    def _find_in(self, pid: int, process: _Process) -> None:
        found, missed = find_places(pid, self._functions, process.searched)
        self.counts.unread += missed
        fresh = list({one.address: one for one in found}.values())
        left = DEBUG_REGISTERS - len(process.places)
        self.counts.left_out += [one.file for one in fresh[left:]]
        fresh = fresh[:left]
        if not fresh:
            return
        sources = [Source(BREAKPOINT, address=one.address) for one in fresh]
        events = PerfEvents.in_threads(
            sources, lambda: procfs.thread_ids(pid), stack_bytes=_STACK, follow=self._tree.follow
        )
        process.places += fresh
        self._parts.append(_Part(events, fresh))

    def _trace(self) -> None:
        search_s = time.monotonic() + _LIBRARIES_S
        while not self._over.is_set():
            if not any(part.rest for part in self._parts):
                self._wait(_IDLE_S, [part.events.fileno() for part in self._parts])
            self._read()
            if time.monotonic() >= search_s:
                search_s = time.monotonic() + _LIBRARIES_S
                with contextlib.suppress(OSError):  # what is traced so far still is
                    alive = self._tree.threads()
                    for part in self._parts:
                        part.events.keep(alive)
                    self._find()
        self._read()
        self._read()  # what came while the last was read

    def _read(self) -> None:
        traced = [one for part in self._parts for one in self._of(part)]
        traced.sort(key=lambda one: one.sample.mono_ns)
        if traced:
            self._report(traced)

    def _of(self, part: _Part) -> Iterator[TracedCall]:
        """Yield the matching calls of the present samples; new ones are kept for the next time."""
        samples = part.rest or self._take(part.events)
        newest = {sample.tid: sample for sample in samples}
        calls = [
            (sample, self._call(sample, part.places[sample.source]))
            for sample in samples
            if self._may_be_wanted(sample)
        ]
        part.rest = self._take(part.events)
        again = {sample.tid for sample in part.rest}
        for sample, call in calls:
            sure = self._moment is Moment.CALL or (newest[sample.tid] is sample and sample.tid not in again)
            if not sure and self._moment is Moment.CATCH:
                self.counts.lost += 1  # its type was read of the same memory
            elif self._wanted(call):
                is_text = sure and not _NO_TEXT.search(call.message)
                yield TracedCall(sample, call if is_text else replace(call, message=""))

    def _take(self, events: PerfEvents) -> list[Sample]:
        samples = events.read()
        lost = events.take_lost()
        self.counts.lost += lost
        self.counts.seen += lost + len(samples)
        return samples

    def _may_be_wanted(self, sample: Sample) -> bool:
        if self._moment is not Moment.THROW:
            return True
        type_info = sample.registers[_SECOND]
        if (sample.pid, type_info) in self._unwanted:
            return False
        names = self._calls.names(sample.pid, type_info)
        if names and not self._wanted(Call(names, "", type_info)):
            self._unwanted[sample.pid, type_info] = None
            return False
        return True

    def _call(self, sample: Sample, place: Found) -> Call:
        raw, fields = read_call(sample.pid, [sample.registers[number] for number in _ARGUMENTS], self._moment)
        return self._calls.call(sample._replace(raw=raw), fields, place.name)

    def _disarm(self) -> None:
        for part in self._parts:
            part.events.close()
        self._parts.clear()
