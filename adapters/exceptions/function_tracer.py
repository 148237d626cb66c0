"""Trace the calls of some functions in one process by probe events: no stop, no ptrace.

Types that don't match are learnt and then filtered by the kernel, so they cost only the trap: the address of a
type_info identifies the type.

Python exceptions are traced as they are raised, with class, message and Python stack, if they reach Python code: an
exception that C code raises and clears by itself (as `hasattr` does) passes through no frame, and one that is raised
again with its former traceback is the same one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from livedbg.adapters.exceptions.calls import Call, TracedCall
from livedbg.adapters.exceptions.native_calls import Subject
from livedbg.cpython.call_frames import CallFrames, PyFrames, goes_on, words_of
from livedbg.cpython.exception_message import ExceptionTypes, Kinds, message_of
from livedbg.cpython.interpreter import interpreter_in
from livedbg.cpython.layout import Layout
from livedbg.cpython.objects import ObjectReader
from livedbg.cpython.probe_arguments import FUNCTION, RAISED, own_tid, raise_arguments
from livedbg.linux.elf import ElfError
from livedbg.linux.registers import PC
from livedbg.model.errors import TargetError
from livedbg.probes.functions import FunctionNotFound, FunctionProbes, NotTraceable
from livedbg.probes.newest import Newest
from livedbg.probes.perf import NoPerf
from livedbg.probes.perf_count import Tally
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, Place
from livedbg.probes.tracefs import Field, NoTracefs, values
from livedbg.probes.tracer import ProcessTree, Tracer

_GATHER_S: Final = 0.004  # calls that come within this are read at once
_IDLE_S: Final = 0.2
_LIBRARIES_S: Final = 1.0  # between two searches for libraries that were loaded meanwhile
_LEARN: Final = 300  # calls of a type that nobody wants, until a kernel filter drops it
_LEARNT_MOST: Final = 24  # types in one filter (it has a page: 4096 bytes)


class FunctionTracer(Tracer):
    """Traces the calls of some functions.

    Args:
        wanted: returns whether a call matches, by its type; called in the tracer's thread.
        report: called in the tracer's thread with the matching calls, in time order.
        follow: include child processes.
        files: files that the process may load: traced before it does.
    """

    def __init__(
        self,
        pid: int,
        subject: Subject,
        *,
        wanted: Callable[[Call], bool],
        report: Callable[[Sequence[TracedCall]], None],
        follow: bool,
        files: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._processes = ProcessTree(pid, follow)
        self._subject = subject
        self._wanted = wanted
        self._report = report
        self._later = tuple(files)
        self._probes: FunctionProbes | None = None
        self._unwanted: Counter[int] = Counter()
        self._dropped: set[int] = set()
        self._sampled = 0
        self._early = 0  # of those: before the tally began
        self._tally: Tally | None = None
        self._tally_ns = 0
        self._tallied = 0  # by tallies before it

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files with traced functions, as the process names them."""
        return self._probes.files if self._probes is not None else ()

    def _arm(self) -> None:
        """Arm the probes, or wait for a runtime that may still be loaded."""
        probes = self._probes = FunctionProbes(
            self._processes,
            self._subject.functions,
            self._subject.arguments,
            stack_bytes=self._subject.stack_bytes,
            later=self._later,
        )
        self.counts.unread = probes.unread
        probes.find()
        if probes.probed:
            probes.arm(self._subject.only)
        elif probes.refused:
            raise probes.refused[0]
        elif not self._subject.awaited:
            raise FunctionNotFound(", ".join(self._subject.functions))

    def _trace(self) -> None:
        assert self._probes is not None
        probes = self._probes
        with contextlib.suppress(OSError):  # only root may: what is not read in time is lost
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)
        search_s = time.monotonic() + _LIBRARIES_S
        while not self._over.is_set():
            self._wait(_IDLE_S, probes.filenos())
            if not self._over.wait(_GATHER_S):
                self._read(probes)
            if time.monotonic() >= search_s or self._learnt():
                search_s = time.monotonic() + _LIBRARIES_S
                self._search(probes)
        self._read(probes)

    def _search(self, probes: FunctionProbes) -> None:
        """Look for new libraries; arm anew if the kernel's filter changes."""
        self._count()
        probes.keep_alive()
        with contextlib.suppress(OSError):  # what is armed so far still is
            learnt, changed = self._learnt(), self._subject.changed()
            if changed:
                probes.forget()
            if not probes.find() and not learnt and not changed:
                return
            self._dropped.update(
                address for address, count in self._unwanted.most_common(_LEARNT_MOST) if count >= _LEARN
            )
            self._unwanted.clear()
            if self._dropped:
                self._count_anew(probes)
            conditions = [self._subject.only] if self._subject.only else []
            conditions += [f"type_info != {address:#x}" for address in sorted(self._dropped)]
            probes.arm(" && ".join(conditions))

    def _learnt(self) -> bool:
        """Return whether a frequent type matches nothing."""
        common = self._unwanted.most_common(1)
        return bool(common) and common[0][1] >= _LEARN and len(self._dropped) < _LEARNT_MOST

    def _read(self, probes: FunctionProbes) -> None:
        traced = []
        for sample, (found, event) in probes.read():
            call = self._subject.describe(sample, event.fields, found)
            if call is None:
                continue
            self._sampled += 1
            if self._tally is None or sample.mono_ns < self._tally_ns:
                self._early += 1
            if self._wanted(call):
                traced.append(TracedCall(sample, call, self._subject.python(sample, event.fields, found)))
            elif call.type_info:
                self._unwanted[call.type_info] += 1
        self.counts.lost = probes.lost
        self.counts.seen = max(self.counts.seen, self._sampled)
        if traced:
            self._report(traced)

    def _count(self) -> None:
        """Count calls, including those that the kernel filters."""
        now = self._tally.total() if self._tally is not None else 0
        self.counts.seen = max(self._sampled, self._early + self._tallied + now)

    def _count_anew(self, probes: FunctionProbes) -> None:
        """Count all calls from now on by other means than samples."""
        sources = [one.source(self._subject.only) for one in probes.probed]
        before, self._tally = self._tally, Tally.of_all(sources, probes.threads, follow=self._processes.follow)
        if before is None:
            self._tally_ns = self._tally.since_ns
        else:
            self._tallied += before.total()
            before.close()

    def _disarm(self) -> None:
        if self._probes is not None:
            self._probes.disarm()
        if self._tally is not None:
            self._count()
            self._tally.close()
        if self._probes is not None:
            self._probes.close()


_MOST: Final = 256  # processes, and threads, that are remembered


_KINDS: Final = {"PyUnicode_Type": "str", "PyLong_Type": "int", "PyTuple_Type": "tuple"}


@dataclass(frozen=True, slots=True)
class _Process:
    kinds: Kinds
    types: ExceptionTypes
    frames: CallFrames


class PythonRaises:
    """Traces Python exceptions as they are raised; `awaited`: an interpreter may be loaded or started later."""

    functions = (FUNCTION,)
    only = RAISED
    stack_bytes = 8  # none: the frames are read by themselves

    def __init__(self, *, awaited: bool) -> None:
        self.awaited = awaited
        self._files: dict[Place, tuple[Layout, dict[str, int]]] = {}
        self._last: Newest[int, tuple[object, int, tuple[int, ...]]] = Newest(_MOST)
        self._processes: Newest[tuple[int, Place, int], _Process] = Newest(_MOST)

    def changed(self) -> bool:
        """Return False: the arguments depend on the file alone."""
        return False

    def arguments(self, found: Found) -> Sequence[str]:
        """Return what to read at the function; raise NotTraceable for its version, OSError if its file is gone."""
        try:
            file = interpreter_in(found.place.path, FUNCTION, *_KINDS)
        except ElfError as error:
            raise NotTraceable(f"{found.file} can't be read: {error}") from None
        if file is None or FUNCTION not in file.symbols:
            raise NotTraceable(f"{found.file} does not contain the address of the interpreter state")
        label = ".".join(map(str, file.version)) if file.version else "older than 3.11"
        if file.layout is None:
            raise NotTraceable(f"Python {label} ({found.file}): exceptions can be traced in CPython 3.11 to 3.14")
        if file.layout.free_threaded:
            raise NotTraceable(
                f"Python {label}, free-threaded ({found.file}): without a GIL the raising thread is unknown"
            )
        self._files[found.place] = file.layout, file.symbols
        distance = file.runtime - file.symbols[FUNCTION]
        return raise_arguments(file.layout, found.place.offset + distance)

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call | None:
        """Return class, bases and message; None if it is no new raise.

        That is the case if another thread's state was read (of an interpreter with its own GIL), or if an exception on
        its way outwards lost its traceback, as in imports (Python/import.c, remove_importlib_frames).
        """
        process = self._process(sample, found.place)
        read = values(fields, sample.raw)
        kind, tid, name, words = read.get("type_info"), read.get("tid"), read.get("name"), words_of(read)
        if not isinstance(kind, int) or not isinstance(name, bytes) or tid != own_tid(sample.pid, sample.tid):
            return None
        now = read.get("value"), kind, words
        before = self._last.get(sample.tid)
        self._last[sample.tid] = now
        if before is not None and before[:2] == now[:2] and goes_on(words, before[2]):
            return None
        names = process.types.names(kind, name.partition(b"\0")[0].decode("utf-8", "replace"))
        return Call(names, message_of(read, names, process.kinds), kind, words)

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames:
        """Return the Python frames of a sample."""
        return self._process(sample, found.place).frames.of(values(fields, sample.raw))

    def _process(self, sample: Sample, place: Place) -> _Process:
        layout, symbols = self._files[place]
        bias = sample.registers[PC] - symbols[FUNCTION]
        key = sample.pid, place, bias  # a process that executes a program is another one
        known = self._processes.get(key)
        if known is None:
            objects = ObjectReader(sample.pid, layout)
            kinds = {bias + symbols[symbol]: name for symbol, name in _KINDS.items() if symbol in symbols}
            frames = CallFrames(ObjectReader(sample.pid, layout))
            known = self._processes[key] = _Process(Kinds(objects, kinds), ExceptionTypes(objects), frames)
        return known


def refused_raises(error: LookupError | OSError, pid: int) -> TargetError | None:
    """Return an error that says why Python exceptions can't be traced; None if it is not about Python."""
    if isinstance(error, NotTraceable):
        return TargetError(f"{error}.", "C++ exceptions can be caught there, with other patterns", "python-unheard")
    if isinstance(error, LookupError):
        return TargetError(
            f"Process {pid} runs no Python whose exceptions can be traced: none of its files has {FUNCTION}.",
            "name the process that runs the interpreter, or add --follow for its children",
            "no-python",
        )
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(
            f"Python exceptions need probe events, which are not allowed here: {error.strerror}.",
            "run livedbg with sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN",
            "no-permission",
        )
    return None
