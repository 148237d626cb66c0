"""Trace events for functions of user programs: `uprobe_events` of tracefs (Documentation/trace/uprobetracer.rst).

The kernel reads the arguments that the event names at the very call, so nothing is missed or torn; a perf event of the
trace event's number can be inherited, unlike one of the PMU `uprobe` (perf.P3).

Text is fetched in pieces. The kernel has a type `string`, but no limit of its length that we could set: where the
strings of one event come to more than a page, Linux 6.18 warns in the host's log (`prepare_uprobe_buffer`,
kernel/trace/trace_uprobe.c), and a host with panic_on_warn goes down. So text is fetched as arrays of words
(Documentation/trace/uprobetracer.rst, "Types"), 64 of them at most in each.

A word costs the target some 0.1 µs, one that can't be read 0.6 µs: what may be no pointer is best not followed. Of an
argument `+3(+2(+1(REGISTER)))` the last read gives zeros where nothing can be read; where an earlier one fails, the
argument keeps what an earlier event of that CPU had there (process_fetch_insn_bottom, kernel/trace/trace_probe_tmpl.h;
seen on Linux 6.18).

Invariants:
    tracefs.X1. A definition by itself changes no program: the trap is there only while a perf event counts it.
    tracefs.X2. What a killed livedbg left behind is a line in `uprobe_events`, and the next one takes it out. The next
        user also takes out a definition that the kernel refused to remove (EBUSY), because it was still counted.
    tracefs.X3. tracefs is used where it is mounted, else through a mount of our own that nobody else sees.
    tracefs.F1. An event's size is known when it is defined, whatever the target has in memory.
    tracefs.F2. A value behind a pointer that was fetched too is not used where that pointer is zero: the value may be
        an earlier event's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux import memory
from livedbg.linux.procfs import process_exists
from livedbg.model.errors import TargetError
from livedbg.probes.perf import NoPerf
from livedbg.probes.perf_event import TRACEPOINT, Source, open_event
from livedbg.text.patterns import lazy_re

_PLACES: Final = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # the same on all machines (asm-generic/unistd.h)
_CREATE, _CLOEXEC = 6, 1  # FSCONFIG_CMD_CREATE; FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC
_FIELD: Final = lazy_re(
    r"field:(?P<type>[^;]{0,200}?) ?(?P<name>\w{1,100})(\[\w{0,100}\])?;\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+)"
)
_GROUP: Final = "livedbg_"

_left: set[str] = set()
"""Definitions of this process that could not be taken out when their user closed."""
_numbers = count()  # names are unique in this process: there may be several of TraceEvents

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class NoTracefs(OSError):
    """tracefs can't be reached: it is not mounted, or our rights don't suffice."""


class Field(NamedTuple):
    """A field of a trace event's raw data; of a text, its `__data_loc` (length in the upper half, then offset)."""

    name: str
    offset: int
    size: int
    text: bool

    def read(self, raw: bytes) -> int | bytes:
        """Return the field's value: a number, or a string's bytes without the NUL."""
        value = int.from_bytes(raw[self.offset : self.offset + self.size], "little")
        if not self.text:
            return value
        start, length = value & 0xFFFF, value >> 16
        return raw[start : start + length].rstrip(b"\0")


class TraceEvent(NamedTuple):
    """A defined event, and its number for perf events of type TRACEPOINT."""

    name: str
    number: int
    fields: dict[str, Field]


class TraceEvents:
    """Our trace events. A context manager; closing it removes their definitions.

    Raises:
        NoTracefs: tracefs can't be reached.
    """

    def __init__(self) -> None:
        self._folder = _opened("uprobe_events", os.O_WRONLY)
        self._group = f"{_GROUP}{os.getpid()}"
        self._names: list[str] = []
        self._drop_stale()

    def __enter__(self) -> TraceEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def define(self, file: str, offset: int, arguments: Sequence[str], *, returns: bool = False) -> TraceEvent:
        """Define an event for a function.

        Args:
            file: a path of ours to the file that holds its code.
            offset: of its first instruction in that file.
            arguments: values to read at a call, as `NAME=FETCHARG:TYPE`.
            returns: the event comes when the function returns, in its caller.

        Raises:
            OSError: the kernel refuses it.
        """
        name = f"e{os.getpid()}_{next(_numbers)}"
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:  # by its descriptor: a path may hold blanks and colons
            place = f"/proc/self/fd/{opened}:{offset:#x}"
            self._write(f"{'r' if returns else 'p'}:{self._group}/{name} {place} {' '.join(arguments)}")
        finally:
            os.close(opened)
        self._names.append(name)
        return _event(self._folder, f"{self._group}/{name}")

    def defined(self) -> str:
        """Return all definitions, also other programs', as tracefs lists them."""
        return self._read("uprobe_events")

    def remove(self, name: str) -> None:
        """Remove a definition; the kernel refuses while somebody counts it."""
        with contextlib.suppress(OSError):
            self._write(f"-:{self._group}/{name}")
            self._names.remove(name)

    def close(self) -> None:
        for name in list(self._names):
            self.remove(name)
        _left.update(self._names)
        os.close(self._folder)

    def _drop_stale(self) -> None:
        for group, name in re.findall(rf"^[pr]:({_GROUP}\d+)/(\w+) ", self.defined(), re.MULTILINE):
            if name in _left if group == self._group else not process_exists(int(group.removeprefix(_GROUP))):
                with contextlib.suppress(OSError):
                    self._write(f"-:{group}/{name}")
                    _left.discard(name)

    def _read(self, name: str) -> str:
        return _read(self._folder, name)

    def _write(self, line: str) -> None:
        file = os.open("uprobe_events", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            os.write(file, line.encode() + b"\n")
        finally:
            os.close(file)


def kernel_event(system: str, name: str) -> TraceEvent:
    """Return a trace event of the kernel (Documentation/trace/events.rst), such as `signal:signal_deliver`.

    Raises:
        NoTracefs: tracefs can't be reached (EACCES, EPERM), or this kernel has no such event (ENOENT).
    """
    folder = _opened(f"events/{system}/{name}/id", os.O_RDONLY)
    try:
        return _event(folder, f"{system}/{name}")
    except FileNotFoundError:
        raise NoTracefs(errno.ENOENT, f"this kernel has no trace event {system}:{name}") from None
    finally:
        os.close(folder)


def may_trace(system: str, name: str) -> bool:
    """Return whether a kernel event may be sampled in our own processes; opens one, which counts nothing."""
    try:
        os.close(open_event(Source(TRACEPOINT, kernel_event(system, name).number), threading.get_native_id()))
    except OSError:
        return False
    return True


def _event(folder: int, name: str) -> TraceEvent:
    fields = [
        Field(m["name"], int(m["offset"]), int(m["size"]), "__data_loc" in m["type"])
        for m in _FIELD.finditer(_read(folder, f"events/{name}/format"))
    ]
    number = int(_read(folder, f"events/{name}/id"))
    return TraceEvent(name.rpartition("/")[2], number, {field.name: field for field in fields})


def _read(folder: int, name: str) -> str:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(file, encoding="utf-8", errors="replace") as text:
        return text.read()


def _opened(file: str, flags: int) -> int:
    """Return a descriptor of a tracefs folder in which `file` can be opened; else of a mount of our own."""
    for place in _PLACES:
        try:
            folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.close(os.open(file, flags | os.O_CLOEXEC, dir_fd=folder))
        except OSError:
            os.close(folder)
            continue
        return folder
    return _mounted()


def _mounted() -> int:
    """Mount tracefs without a place in the file system (fsopen(2), fsmount(2))."""
    context = _call(_FSOPEN, ctypes.c_char_p(b"tracefs"), ctypes.c_uint(_CLOEXEC))
    try:
        _call(_FSCONFIG, ctypes.c_int(context), ctypes.c_uint(_CREATE), None, None, ctypes.c_int(0))
        return _call(_FSMOUNT, ctypes.c_int(context), ctypes.c_uint(_CLOEXEC), ctypes.c_uint(0))
    finally:
        os.close(context)


def _call(number: int, *arguments: object) -> int:
    answer = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if answer < 0:
        code = ctypes.get_errno() or errno.EPERM
        raise NoTracefs(code, os.strerror(code))
    return answer


_WORD: Final = 8
_PIECE: Final = 64  # MAX_ARRAY_LEN, kernel/trace/trace_probe.h
_NAME: Final = lazy_re(r"(?P<name>\w+)_p\d+")


def pieces(name: str, pointer: str, size: int) -> tuple[str, ...]:
    """Return the arguments of a definition that fetch memory behind a pointer.

    Args:
        name: key of the bytes in the result of `values`.
        pointer: a fetch argument of the kernel.
        size: in bytes; a multiple of 8.
    """
    found = []
    for number, start in enumerate(range(0, size, _PIECE * _WORD)):
        words = min(_PIECE, (size - start) // _WORD)
        found.append(f"{name}_p{number}=+{start}({pointer}):x64[{words}]")
    return tuple(found)


def values(fields: Mapping[str, Field], raw: bytes) -> dict[str, int | bytes]:
    """Return the values of an event's fields, with pieces joined."""
    found: dict[str, int | bytes] = {}
    parts: dict[str, list[bytes]] = {}
    for field, whole in zip(fields.values(), _wholes(tuple(fields)), strict=True):
        if whole is None:
            found[field.name] = field.read(raw)
        else:
            parts.setdefault(whole, []).append(raw[field.offset : field.offset + field.size])
    found.update({name: b"".join(some) for name, some in parts.items()})
    return found


def number_in(values: Mapping[str, int | bytes], name: str) -> int:
    """Return a number among values; 0 if it is missing."""
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0


def bytes_in(values: Mapping[str, int | bytes], name: str) -> bytes:
    """Return bytes among values; none if they are missing."""
    value = values.get(name, b"")
    return value if isinstance(value, bytes) else b""


@lru_cache(maxsize=64)
def _wholes(names: tuple[str, ...]) -> tuple[str | None, ...]:
    return tuple(part["name"] if (part := _NAME.fullmatch(name)) else None for name in names)


def text_at(pid: int, address: int, fetched: bytes, most: int) -> bytes:
    """Return a NUL-terminated text of which the beginning was fetched: all of it if it is still there."""
    text, nul, _ = fetched.partition(b"\0")
    if nul or not address or len(text) >= most:
        return text[:most]
    try:
        now = memory.read_text(pid, address, most)
    except (OSError, OverflowError):
        return text
    return now if now.startswith(text) else text


_ROOT: Final = "run livedbg with sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN"


def probe_refused(error: OSError, pid: int) -> TargetError:
    """Return the error to show when setting a probe failed."""
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return TargetError(f"Process {pid} has ended.", "", "gone")
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(f"Probes are not allowed here: {error.strerror}.", _ROOT, "no-permission")
    if error.errno == errno.EMFILE:
        return TargetError(f"{error.strerror}.", "ulimit -n 65536", "too-many-files")
    return TargetError(f"The kernel refused the probe: {error.strerror}.", "livedbg doctor", "refused")
