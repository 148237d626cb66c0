"""Unwinds captures of one process in a gdb that never attaches to it.

gdb gets an ELF core file made of the copied registers and stacks (elf(5), core(5)). It holds NT_PRSTATUS of each
thread, NT_PRPSINFO, NT_AUXV, NT_FILE and the copied parts of the stacks; code and unwind tables come from the files
that NT_FILE names. The machine is that of livedbg.linux.registers.

Invariants:
    unwinder.U1. gdb gets a core file and never the process.
    unwinder.U2. The core file is gone from the disk when `unwind` returns.
    unwinder.U3. One capture at a time: who comes meanwhile waits.
    unwinder.U4. A frame is not named by symbols of a file that lay at its address earlier: when the target has executed
        another program there, a fresh gdb is started. (A gdb 13 crashes on some `remove-symbol-file`.)
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from pathlib import Path
from typing import Final

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbGone
from livedbg.linux import procfs
from livedbg.linux import registers as machine
from livedbg.linux.owner_rights import give_to_owner
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.copies import copy_folder, sweep
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.unwound import Note, Unwound, left_s
from livedbg.unwind.walk import SymbolsTooSlow, Walker

_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV, _NT_FILE = 1, 3, 6, 0x46494C45  # elf.h
_PAGE: Final = 4096
_PRSTATUS_PID: Final = 32  # struct elf_prstatus, linux/elfcore.h
_PSINFO_SIZE: Final = 136  # struct elf_prpsinfo: pid at 24, fname at 40


def write_core(path: Path, capture: Capture, modules: Modules) -> None:
    """Write the core file of a capture; only we may read it.

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
    """Return NT_FILE (fs/binfmt_elf.c, fill_files_note). gdb reads code through these paths."""
    files = [mapping for mapping in capture.mappings if mapping.path.startswith("/")]
    head = struct.pack("<QQ", len(files), _PAGE)
    ranges = b"".join(struct.pack("<QQQ", m.start, m.end, m.offset // _PAGE) for m in files)
    names = b"".join(str(modules.opened(mapping)).encode("utf-8", "surrogateescape") + b"\0" for mapping in files)
    return _note(_NT_FILE, head + ranges + names)


_PREPARE_S: Final = 60.0  # for each command before the first capture: on a busy box gdb begins slowly
_SETTINGS: Final = (
    "set pagination off",
    "set confirm off",
    "set auto-solib-add off",
    "set auto-load off",
    "set print elements 200",
    "set backtrace limit 300",
    "set max-completions 0",
    "set sysroot /dev/null",
)


class Unwinder:
    """A warm gdb for one process."""

    def __init__(self, gdb: str, pid: int) -> None:
        self.pid = pid
        self._gdb = gdb
        self._engine = GdbEngine(gdb, target=pid)
        self._walker = Walker(self._engine)
        self._one_at_a_time = asyncio.Lock()
        self._closed = False
        self._too_slow: dict[Module, SymbolsTooSlow] = {}

    @property
    def alive(self) -> bool:
        return self._engine.alive

    @property
    def busy(self) -> bool:
        return self._one_at_a_time.locked()

    @property
    def cpu_s(self) -> float:
        """CPU seconds that its gdb has used; 0 if it has ended."""
        pid = self._engine.pid
        try:
            return 0.0 if pid is None else procfs.read_stat(pid).cpu_ticks * procfs.CLOCK_TICK_NS / 1e9
        except OSError:
            return 0.0

    @property
    def too_slow(self) -> list[str]:
        """A sentence for each file whose symbols gdb could not read in time."""
        return [error.message for error in self._too_slow.values()]

    @property
    def notes(self) -> list[Note]:
        consequence = "Frames in it have no names, and stacks may end there."
        return [Note("symbols-too-slow", f"{sentence} {consequence}") for sentence in self.too_slow]

    @property
    def loaded(self) -> list[str]:
        """Names of the files whose symbols are loaded."""
        return self._walker.symbols.loaded

    async def start(self) -> None:
        """Start the gdb.

        Raises:
            GdbGone, GdbTimeout: it can't be started.
            GdbCommandError: it has no Python.
        """
        await asyncio.to_thread(sweep)  # what a killed livedbg left
        await _prepare(self._engine, self._walker)

    async def unwind(self, capture: Capture, limit_s: float, *, values: bool = False) -> dict[int, Unwound]:
        """Return the stacks of a capture's threads.

        Args:
            values: ignored.

        Raises:
            GdbTimeout: it took longer.
            GdbCommandError, GdbGone: gdb can't do it.
            OSError: the process is gone, or the core can't be written.
        """
        async with self._one_at_a_time:
            return await self._unwind(capture, time.monotonic() + limit_s)

    async def close(self) -> None:
        self._closed = True
        await self._engine.close()

    async def _renew(self, patience_s: float = 2.0) -> None:
        """Replace the gdb; the former one may take `patience_s` to end."""
        engine = GdbEngine(self._gdb, target=self.pid)
        walker = Walker(engine, self._too_slow)
        try:
            await _prepare(engine, walker)
        except BaseException:
            await engine.close()
            raise
        if self._closed:  # meanwhile
            await engine.close()
            raise GdbGone("gdb has ended.", "", "gdb-gone")
        before, self._engine, self._walker = self._engine, engine, walker
        await before.close(patience_s)

    async def _unwind(self, capture: Capture, end: float) -> dict[int, Unwound]:
        modules = Modules(self.pid, capture.mappings)
        if self._walker.symbols.outdated(modules):
            await self._renew()
        while True:
            try:
                return await self._walked(capture, modules, end)
            except SymbolsTooSlow as slow:  # without them, the other frames have names
                self._too_slow[slow.module] = slow
                await self._renew(0.0)

    async def _walked(self, capture: Capture, modules: Modules, end: float) -> dict[int, Unwound]:
        with copy_folder() as folder:
            core = folder / "core"
            write_core(core, capture, modules)
            give_to_owner(self.pid, core)
            await self._engine.console(f"core-file {core}", left_s(end))
            done = await self._walker.walk({thread.tid: thread.pc for thread in capture.threads}, modules, end)
            await self._engine.console("core-file", left_s(end))
        return done


async def _prepare(engine: GdbEngine, walker: Walker) -> None:
    await engine.start()
    for setting in _SETTINGS:
        try:
            await engine.console(setting, _PREPARE_S)
        except GdbCommandError:
            continue  # this gdb doesn't know it
    await walker.prepare(_PREPARE_S)
