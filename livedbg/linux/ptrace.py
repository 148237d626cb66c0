"""ptrace(2), as much of it as a short stop needs: seize, interrupt, wait, registers, detach.

PTRACE_SEIZE doesn't stop a thread and sends it no signal; PTRACE_INTERRUPT stops it. Tracing belongs to the OS thread
that requested it: all calls for one thread, from `seize` to `detach`, come from the same OS thread, and when that
thread ends (or is killed), the kernel detaches all its tracees, and they continue (kernel/ptrace.c, exit_ptrace).

The calls hold the GIL (ctypes.PyDLL): none of them blocks, and while a target is stopped there must be no wait for the
interpreter.

Whether a thread has stopped is read from ptrace itself (PTRACE_GETSIGINFO), never from wait(2): a parent that waits for
a child that is traced by its own process gets the stops too.

Invariants:
    ptrace.T1. No exit status and no stop is taken from anybody: nothing here waits.
    ptrace.T2. A signal that was being delivered to a thread when it stopped is handed back at `detach`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final, NamedTuple

from livedbg.linux import registers as machine

_DETACH, _GETSIGINFO, _GETREGSET, _SEIZE, _INTERRUPT = 17, 0x4202, 0x4204, 0x4206, 0x4207  # sys/ptrace.h
_NT_PRSTATUS: Final = 1  # elf.h
_EVENT_STOP: Final = 128  # PTRACE_EVENT_STOP
_SIGINFO: Final = struct.Struct("<iii")  # si_signo, si_errno, si_code of siginfo_t, asm-generic/siginfo.h
_SIGINFO_SIZE: Final = 128
_REGISTERS: Final = struct.Struct(f"<{machine.USER_COUNT}Q")

_libc = ctypes.PyDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class _IoVec(ctypes.Structure):
    """struct iovec (sys/uio.h)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Stop(NamedTuple):
    """The stop of a traced thread; `signal` was about to be delivered (or 0), and is handed back at `detach`."""

    signal: int


def usable() -> bool:
    """Return whether the layouts here are this machine's."""
    return os.uname().machine == machine.MACHINE


def seize(tid: int) -> None:
    """Begin to trace a thread; it runs on.

    Raises:
        PermissionError: not allowed, traced already, or ending.
        ProcessLookupError: gone.
    """
    _request(_SEIZE, tid)


def interrupt(tid: int) -> None:
    """Tell a seized thread to stop; see `stopped`.

    Raises:
        ProcessLookupError: gone.
    """
    _request(_INTERRUPT, tid)


def stopped(tid: int) -> Stop | None:
    """Return how a seized thread has stopped; None while it has not, or if it has ended."""
    info = ctypes.create_string_buffer(_SIGINFO_SIZE)
    try:
        _request(_GETSIGINFO, tid, 0, ctypes.addressof(info))
    except ProcessLookupError:
        return None
    signal, _, code = _SIGINFO.unpack_from(info)
    return Stop(0 if code >> 8 == _EVENT_STOP else signal)


def registers(tid: int) -> tuple[int, ...]:
    """Return the registers of a stopped thread, in the order of livedbg.linux.registers.

    Raises:
        ProcessLookupError: not stopped, or gone.
        ValueError: a 32-bit program, whose registers are others.
    """
    buffer = ctypes.create_string_buffer(2 * _REGISTERS.size)
    vector = _IoVec(ctypes.addressof(buffer), len(buffer))
    _request(_GETREGSET, tid, _NT_PRSTATUS, ctypes.addressof(vector))
    if vector.length != _REGISTERS.size:
        raise ValueError("a 32-bit program")
    values: tuple[int, ...] = _REGISTERS.unpack_from(buffer)
    return values[: machine.COUNT]


def detach(tid: int, signal: int = 0) -> None:
    """Resume a stopped thread, untraced, with `Stop.signal`.

    Raises:
        ProcessLookupError: not stopped, or gone.
    """
    _request(_DETACH, tid, 0, signal)


def _request(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
