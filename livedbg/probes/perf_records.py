"""The records of a perf ring: samples, and changes of a process's memory (linux/perf_event.h, PERF_RECORD_*)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from livedbg.linux import registers as machine
from livedbg.linux.maps import Mapping

_WANTED: Final = tuple(sorted(number for number in machine.PERF_NUMBERS if number is not None))
REGISTERS_MASK: Final = sum(1 << number for number in _WANTED)
"""Which registers a sample is to bring."""
_PLACE: Final = {number: place for place, number in enumerate(_WANTED)}
_REGISTERS: Final = struct.Struct(f"<{len(_WANTED)}Q")

_COMM, _FORK, _MMAP2 = 3, 7, 10  # PERF_RECORD_*
_BY_EXEC: Final = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_MMAP2_HEAD: Final = struct.Struct("<IIQQQIIQQII")
_SAMPLE_ID: Final = 24  # bytes at the end of a record: pid and tid, time, identifier


class Sample(NamedTuple):
    """A sample (`PERF_RECORD_SAMPLE`).

    Attributes:
        source: index of the source.
        mono_ns: CLOCK_MONOTONIC.
        raw: the fields of a trace event; b"" for others.
        registers: in the order of livedbg.linux.registers.
        stack: the bytes from the stack pointer upwards.
        ran_ns: CPU time of its thread by then, by its clock (`ClockSamples.ran_ns`); 0 for other events.
    """

    source: int
    pid: int
    tid: int
    mono_ns: int
    raw: bytes
    registers: tuple[int, ...]
    stack: bytes
    ran_ns: int = 0


class Mapped(NamedTuple):
    """Code was mapped."""

    pid: int
    mono_ns: int
    mapping: Mapping


class Forked(NamedTuple):
    """A process was forked."""

    pid: int
    mono_ns: int
    parent: int


class Executed(NamedTuple):
    """A process executed another program."""

    pid: int
    mono_ns: int


Change: TypeAlias = Mapped | Forked | Executed


def layout_change(kind: int, misc: int, record: bytes) -> Change | None:
    """Return the change of a process's memory in a record; None if the record is of another kind, or of a thread.

    The record is with its header, and the identity at its end (sample_id_all).
    """
    (mono_ns,) = struct.unpack_from("<Q", record, len(record) - _SAMPLE_ID + 8)
    if kind == _FORK:
        pid, parent = struct.unpack_from("<II", record, 8)
        return Forked(pid, mono_ns, parent) if pid != parent else None
    if kind == _COMM and misc & _BY_EXEC:
        return Executed(struct.unpack_from("<I", record, 8)[0], mono_ns)
    if kind != _MMAP2:
        return None
    pid, _, start, size, offset, major, minor, inode, _, access, flags = _MMAP2_HEAD.unpack_from(record, 8)
    path = record[8 + _MMAP2_HEAD.size : -_SAMPLE_ID].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
    permissions = "".join(letter if access & 1 << bit else "-" for bit, letter in enumerate("rwx"))
    permissions += "s" if flags & 1 else "p"  # MAP_SHARED
    shown = "" if path == "//anon" else path
    mapping = Mapping(start, start + size, permissions, offset, f"{major:02x}:{minor:02x}", inode, shown, False)
    return Mapped(pid, mono_ns, mapping)


def sample_of(record: bytes, number: int, has_fields: bool, *, has_count: bool = False) -> Sample | None:
    """Return the sample of a record (PERF_RECORD_SAMPLE, with its header); None for a kernel thread."""
    _, pid, tid, mono_ns = struct.unpack_from("<QIIQ", record, 8)
    at, raw, ran_ns = 32, b"", 0
    if has_count:
        (ran_ns,) = struct.unpack_from("<Q", record, at)
        at += 8
    if has_fields:
        (size,) = struct.unpack_from("<I", record, at)
        raw = record[at + 4 : at + 4 + size]
        at += 4 + size
    (abi,) = struct.unpack_from("<Q", record, at)
    if not abi:  # no user registers: a thread of the kernel
        return None
    values = _REGISTERS.unpack_from(record, at + 8)
    registers = tuple(values[_PLACE[n]] if n is not None else 0xFFFFFFFFFFFFFFFF for n in machine.PERF_NUMBERS)
    at += 8 + _REGISTERS.size
    (size,) = struct.unpack_from("<Q", record, at)
    stack = b""
    if size:
        (filled,) = struct.unpack_from("<Q", record, at + 8 + size)
        stack = record[at + 8 : at + 8 + filled]
    return Sample(number, pid, tid, mono_ns, raw, registers, stack, ran_ns)
