"""An ELF core file made of copied registers and stacks, to be unwound by gdb (elf(5), core(5)).

It holds NT_PRSTATUS of each thread, NT_PRPSINFO, NT_AUXV, NT_FILE and the copied parts of the stacks;
code and unwind tables come from the files that NT_FILE names. The machine is that of livedbg.linux.registers.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Final

from livedbg.linux import procfs
from livedbg.linux import registers as machine
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.modules import Modules

__all__ = ["write_core"]

_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV, _NT_FILE = 1, 3, 6, 0x46494C45  # elf.h
_PAGE: Final = 4096
_PRSTATUS_PID: Final = 32  # struct elf_prstatus, linux/elfcore.h
_PSINFO_SIZE: Final = 136  # struct elf_prpsinfo: pid at 24, fname at 40


def write_core(path: Path, capture: Capture, modules: Modules) -> None:
    """Write the core of a capture; only we may read it.

    Args:
        path: where.
        capture: the copies.
        modules: the files that the core names.

    Raises:
        OSError: the file can't be written.
    """
    notes = _process_note(capture) + b"".join(_thread_note(thread) for thread in capture.threads)
    with contextlib.suppress(OSError):  # the process has ended since: gdb does without
        auxv = procfs.read_file(f"/proc/{procfs.living_task(capture.pid)}/auxv")
        notes += _note(_NT_AUXV, auxv)
    notes += _files_note(capture, modules)
    segments: list[tuple[int, bytes]] = []
    for low, stack in sorted((thread.low, thread.stack) for thread in capture.threads):
        if not segments or low >= segments[-1][0] + len(segments[-1][1]):
            segments.append((low, stack))
    note_at = 64 + 56 * (1 + len(segments))
    data_at = (note_at + len(notes) + _PAGE - 1) & -_PAGE
    headers = struct.pack("<IIQQQQQQ", 4, 4, note_at, 0, 0, len(notes), 0, 4)  # PT_NOTE
    at = data_at
    for low, stack in segments:
        headers += struct.pack("<IIQQQQQQ", 1, 6, at, low, 0, len(stack), len(stack), 1)  # PT_LOAD, rw
        at += len(stack)
    ident = b"\x7fELF\2\1\1" + bytes(9)
    count = 1 + len(segments)
    elf = ident + struct.pack(
        "<HHIQQQIHHHHHH", 4, machine.ELF_MACHINE, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0
    )  # ET_CORE
    path.touch(mode=0o600)
    with path.open("wb") as out:
        out.write(elf + headers + notes + bytes(data_at - note_at - len(notes)))
        for _, stack in segments:
            out.write(stack)


def _note(kind: int, data: bytes) -> bytes:
    return struct.pack("<III", 5, len(data), kind) + b"CORE\0\0\0\0" + data + bytes(-len(data) % 4)


def _thread_note(thread: ThreadCopy) -> bytes:
    status = bytearray(machine.PRSTATUS_SIZE)
    struct.pack_into("<i", status, _PRSTATUS_PID, thread.tid)
    struct.pack_into(f"<{machine.COUNT}Q", status, machine.PRSTATUS_REGISTERS, *thread.registers)
    return _note(_NT_PRSTATUS, bytes(status))


def _process_note(capture: Capture) -> bytes:
    info = bytearray(_PSINFO_SIZE)
    struct.pack_into("<4i", info, 24, capture.pid, 0, capture.pid, capture.pid)
    with contextlib.suppress(OSError):
        info[40:56] = procfs.read_file(f"/proc/{capture.pid}/comm").strip()[:15].ljust(16, b"\0")
    return _note(_NT_PRPSINFO, bytes(info))


def _files_note(capture: Capture, modules: Modules) -> bytes:
    """NT_FILE (fs/binfmt_elf.c, fill_files_note). gdb reads code through these paths."""
    files = [mapping for mapping in capture.mappings if mapping.path.startswith("/")]
    head = struct.pack("<QQ", len(files), _PAGE)
    ranges = b"".join(struct.pack("<QQQ", m.start, m.end, m.offset // _PAGE) for m in files)
    names = b"".join(str(modules.opened(mapping)).encode("utf-8", "surrogateescape") + b"\0" for mapping in files)
    return _note(_NT_FILE, head + ranges + names)
