"""The ABI of the machine in one table: system call numbers, layout of glibc's lock types, ELF class.

x86-64 and aarch64 share all the layouts here (both are LP64 and little-endian, glibc
sysdeps/nptl/bits/struct_mutex.h, struct_rwlock.h, thread-shared-types.h); they differ in system
call numbers and in the thread descriptor. The aarch64 column was never tried on such a machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Final

from msgspec import Struct

from livedbg.linux.procfs import living_task
from livedbg.linux.syscall_names import SYSCALLS_AARCH64, SYSCALLS_X86_64

__all__ = ["COND_LAYOUTS", "Abi", "CondLayout", "MutexLayout", "RwlockLayout", "elf_machine", "native_abi"]


class MutexLayout(Struct, frozen=True):
    """pthread_mutex_t of glibc on LP64 (unchanged from 2.3 to 2.42)."""

    lock: int = 0
    count: int = 4
    owner: int = 8
    users: int = 12
    kind: int = 16


class RwlockLayout(Struct, frozen=True):
    """pthread_rwlock_t of glibc 2.25 and later on LP64."""

    readers: int = 0
    writers: int = 4
    phase_futex: int = 8
    writers_futex: int = 12
    current_writer: int = 24
    shared: int = 28


class CondLayout(Struct, frozen=True):
    """pthread_cond_t of glibc on LP64: where `__wrefs` and the two `__g_signals` are.

    Attributes:
        name: which glibc has it.
        waits_for_zero: threads wait while their signal word is 0.
    """

    name: str
    wrefs: int
    signals: tuple[int, int]
    waits_for_zero: bool


COND_LAYOUTS: Final = (
    CondLayout("2.25 to 2.40", 36, (40, 44), True),
    CondLayout("2.41, and releases that took its condition variable fix", 28, (32, 36), False),
)
"""Both are tried on each object: distributions put the newer one into older releases."""


class Abi(Struct, frozen=True):
    """What differs between machines.

    Attributes:
        machine: as uname(2) says it.
        elf: e_machine of its executables (elf.h).
        syscalls: name by number.
        futex: number of futex(2).
        descriptor_tid: offset of `tid` in glibc's thread descriptor (struct pthread, nptl/descr.h)
            from the pointer that pthread_self() gives; None where it isn't known.
    """

    machine: str
    elf: int
    syscalls: Mapping[int, str]
    futex: int
    descriptor_tid: int | None = None


_ABIS: Final = {
    "x86_64": Abi("x86_64", 62, SYSCALLS_X86_64, 202, 0x2D0),
    "aarch64": Abi("aarch64", 183, SYSCALLS_AARCH64, 98),
}


@cache
def native_abi() -> Abi | None:
    """The ABI of this machine; None when it isn't in the table."""
    return _ABIS.get(os.uname().machine)


def elf_machine(pid: int) -> int | None:
    """e_machine of what a process executes; None when that can't be read."""
    try:
        head = _head(f"/proc/{living_task(pid)}/exe")
    except OSError:
        return None
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else None


def _head(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 64)
    finally:
        os.close(fd)
