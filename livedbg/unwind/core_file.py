"""Reads a core file: registers and stacks of the threads, mappings, the signal (core(5)).

Sources: fs/binfmt_elf.c (fill_note_info, fill_files_note), include/uapi/linux/elfcore.h.

Invariants:
    core_file.F1. A file that is cut short, or is none, costs what it lacks: no read is longer than what is asked for.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from livedbg.linux import registers as machine
from livedbg.linux import target_files
from livedbg.linux.maps import Mapping
from livedbg.unwind.capture import STACK_BYTES, Capture, ThreadCopy

_CORE, _LOAD, _NOTE = 4, 1, 4  # ET_CORE, PT_LOAD, PT_NOTE
_PRSTATUS, _PRPSINFO, _SIGINFO, _FILES = 1, 3, 0x53494749, 0x46494C45  # NT_…
_STATUS_SIGNAL, _STATUS_PID, _INFO_PID = 12, 32, 24
_MOST_HEADERS: Final = 65_535
_MOST_NOTES: Final = 16 << 20  # bytes
_NOTE_NAME: Final = b"CORE\0"


class _Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    start: int
    kept: int
    size: int


class CoreFile(NamedTuple):
    """The contents of a core file.

    Attributes:
        code: si_code of the signal; None if the core has none.
        address: the faulting address if the kernel sent the signal; else its lower half is the pid of the sender.
        session: the session of the process (setsid(2)).
        capture: the thread that got the signal comes first.
    """

    signal: int
    code: int | None
    address: int
    session: int
    capture: Capture


def read_core(path: Path) -> CoreFile | None:
    """Read a core file; None if it is not one of this machine.

    Raises:
        OSError: it can't be read.
    """
    with target_files.open_binary(path) as file:
        try:
            return _read(file)
        except (struct.error, ValueError):
            return None


def _read(file: BinaryIO) -> CoreFile | None:
    header = file.read(64)
    if header[:6] != b"\x7fELF\2\1" or struct.unpack_from("<HH", header, 16) != (_CORE, machine.ELF_MACHINE):
        return None
    (table,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
    rows = _at(file, table, size * min(count, _MOST_HEADERS))
    segments = [_segment(rows, at) for at in range(0, len(rows) - size + 1, size)]
    notes = [note for segment in segments if segment.kind == _NOTE for note in _notes(file, segment)]
    statuses = [data for kind, data in notes if kind == _PRSTATUS and len(data) >= machine.PRSTATUS_SIZE]
    infos = [struct.unpack_from("<iiii", data, _INFO_PID) for kind, data in notes if kind == _PRPSINFO]
    if not statuses or not infos:
        return None
    pid, _, _, session = infos[0]
    memory = [segment for segment in segments if segment.kind == _LOAD]
    threads = tuple(_thread(file, data, memory) for data in statuses)
    files = {start: (offset, path) for kind, data in notes if kind == _FILES for start, offset, path in _files(data)}
    mappings = tuple(_mapping(segment, files.get(segment.start)) for segment in memory)
    (number,), code, address = struct.unpack_from("<h", statuses[0], _STATUS_SIGNAL), None, 0
    for _, data in (note for note in notes if note[0] == _SIGINFO):
        number, _, code, _, address = struct.unpack_from("<iiiiQ", data)
    return CoreFile(number, code, address, session, Capture(pid, threads, (), mappings))


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    with contextlib.suppress(OSError, OverflowError):  # beyond what a file can have
        file.seek(offset)
        return file.read(size)
    return b""


def _segment(rows: bytes, at: int) -> _Segment:
    kind, flags, offset, start, _, kept, size, _ = struct.unpack_from("<IIQQQQQQ", rows, at)
    return _Segment(kind, flags, offset, start, kept, size)


def _notes(file: BinaryIO, segment: _Segment) -> Iterator[tuple[int, bytes]]:
    data = _at(file, segment.offset, min(segment.kept, _MOST_NOTES))
    at = 0
    while at + 12 <= len(data):
        name, size, kind = struct.unpack_from("<III", data, at)
        begin = at + 12 + (name + 3 & ~3)
        if data[at + 12 : at + 12 + name] == _NOTE_NAME:
            yield kind, data[begin : begin + size]
        at = begin + (size + 3 & ~3)


def _thread(file: BinaryIO, status: bytes, memory: list[_Segment]) -> ThreadCopy:
    values = struct.unpack_from(f"<{machine.COUNT}Q", status, machine.PRSTATUS_REGISTERS)
    (tid,) = struct.unpack_from("<i", status, _STATUS_PID)
    sp = values[machine.SP]
    stack = next((one for one in memory if one.start <= sp < one.start + one.kept), None)
    if stack is None:
        return ThreadCopy(tid, values, sp, b"")
    low = max(stack.start, sp - machine.RED_ZONE)
    size = min(stack.start + stack.kept - low, STACK_BYTES)
    return ThreadCopy(tid, values, low, _at(file, stack.offset + low - stack.start, size))


def _files(data: bytes) -> Iterator[tuple[int, int, str]]:
    count, page = struct.unpack_from("<QQ", data)
    names = data[16 + 24 * count :].split(b"\0")
    for place in range(min(count, len(names))):
        start, _, offset = struct.unpack_from("<QQQ", data, 16 + 24 * place)
        yield start, offset * page, os.fsdecode(names[place])


def _mapping(segment: _Segment, mapped: tuple[int, str] | None) -> Mapping:
    letters = "".join(letter if segment.flags & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
    end = segment.start + segment.size
    if mapped is None:
        return Mapping(segment.start, end, f"{letters}p", 0, "", 0, "", False)
    offset, path = mapped
    try:
        inode = target_files.status(path).st_ino
    except OSError:
        inode = 0
    return Mapping(segment.start, end, f"{letters}p", offset, "", inode, path, False)
