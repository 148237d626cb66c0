"""Describe a signal's fields: its origin, and its effect on the process.

Codes: asm-generic/siginfo.h; default actions: signal(7); handlers and flags: the trace event signal:signal_deliver
(include/trace/events/signal.h), which has them as the kernel acts on them.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

from livedbg.linux import maps
from livedbg.linux.procfs import signal_name

QUIET_WHERE_HANDLED: Final = (signal.SIGSYS, signal.SIGTRAP)
"""What sandboxes and debuggers work with, and is no news where the program has a handler for it."""

BY_SOMEBODY: Final = (0, -1, -6)
"""Codes of what a process has sent (SI_USER, SI_QUEUE, SI_TKILL): of other signals the sender is whoever ran just then,
and there is an address where the sender's pid would be.
"""

_DEFAULT, _IGNORE = 0, 1  # SIG_DFL, SIG_IGN
_HARMLESS: Final = (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT)
_STOPPING: Final = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

_SENT: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "sent by kill (SI_USER)",
        0x80: "sent by the kernel (SI_KERNEL)",
        -1: "sent by sigqueue (SI_QUEUE)",
        -2: "a timer has run out (SI_TIMER)",
        -3: "a message queue (SI_MESGQ)",
        -4: "asynchronous input or output (SI_ASYNCIO)",
        -5: "a file descriptor is ready (SI_SIGIO)",
        -6: "sent to the thread, as abort and raise do (SI_TKILL)",
    }
)
_KERNEL: Final = 0x80
_OF_SIGNAL: Final[Mapping[int, Mapping[int, str]]] = MappingProxyType(
    {
        signal.SIGSEGV: {
            1: "address not mapped (SEGV_MAPERR)",
            2: "access not allowed at that address (SEGV_ACCERR)",
            3: "bounds check failed (SEGV_BNDERR)",
            4: "protection key forbids it (SEGV_PKUERR)",
            10: "control protection (SEGV_CPERR)",
            _KERNEL: "general protection fault: no canonical address, or a forbidden instruction (SI_KERNEL)",
        },
        signal.SIGBUS: {
            1: "address not aligned (BUS_ADRALN)",
            2: "no memory behind that address: the mapped file is shorter, or its disk is full (BUS_ADRERR)",
            3: "hardware error at that object (BUS_OBJERR)",
            4: "memory failure, met by the program (BUS_MCEERR_AR)",
            5: "memory failure, found by the hardware (BUS_MCEERR_AO)",
        },
        signal.SIGFPE: {
            1: "integer division by zero (FPE_INTDIV)",
            2: "integer overflow (FPE_INTOVF)",
            3: "floating-point division by zero (FPE_FLTDIV)",
            4: "floating-point overflow (FPE_FLTOVF)",
            5: "floating-point underflow (FPE_FLTUND)",
            6: "inexact floating-point result (FPE_FLTRES)",
            7: "invalid floating-point operation (FPE_FLTINV)",
            8: "subscript out of range (FPE_FLTSUB)",
        },
        signal.SIGILL: {
            1: "illegal opcode (ILL_ILLOPC)",
            2: "illegal operand, or an instruction that this processor lacks (ILL_ILLOPN)",
            3: "illegal addressing mode (ILL_ILLADR)",
            4: "illegal trap (ILL_ILLTRP)",
            5: "privileged opcode (ILL_PRVOPC)",
            6: "privileged register (ILL_PRVREG)",
            7: "coprocessor error (ILL_COPROC)",
            8: "internal stack error (ILL_BADSTK)",
        },
        signal.SIGTRAP: {
            1: "breakpoint (TRAP_BRKPT)",
            2: "single step (TRAP_TRACE)",
            4: "hardware breakpoint (TRAP_HWBKPT)",
            6: "perf event (TRAP_PERF)",
            _KERNEL: "breakpoint instruction (SI_KERNEL)",
        },
        signal.SIGSYS: {
            1: "a system call that its seccomp filter forbids (SYS_SECCOMP)",
            2: "system call handed to the program (SYS_USER_DISPATCH)",
        },
        signal.SIGCHLD: {
            1: "a child has exited (CLD_EXITED)",
            2: "a child was killed (CLD_KILLED)",
            3: "a child has dumped core (CLD_DUMPED)",
        },
    }
)


def origin(number: int, code: int) -> str:
    """Return why a signal came, by its si_code."""
    known = _OF_SIGNAL.get(number, {}).get(code) or _SENT.get(code)
    return known or f"code {code}"


def is_fatal(number: int, handler: int) -> bool:
    """Return whether a signal ends the process; `handler` as for `effect`."""
    return handler == _DEFAULT and number not in _HARMLESS and number not in _STOPPING


def effect(number: int, handler: int, mappings: Sequence[maps.Mapping]) -> str:
    """Return the effect of a signal.

    Args:
        handler: address of the handler; 0 and 1 for the default and for none (SIG_DFL, SIG_IGN).
        mappings: of the process, to name the owner of the handler.
    """
    if handler == _IGNORE:
        return "ignored"
    if handler != _DEFAULT:
        mapping = maps.find_mapping(mappings, handler)
        owner = PurePosixPath(mapping.path).name if mapping is not None else ""
        return f"handled, by a function in {owner}" if owner else "handled by the program"
    if number in _HARMLESS:
        return "no handler: nothing happens"
    if number in _STOPPING:
        return "no handler: the process stops"
    return "no handler: fatal"


def ended(status: int) -> str:
    """Return how a process ended, by its status of waitpid(2)."""
    number = status & 0x7F
    if not number:
        return f"exited with status {status >> 8 & 0xFF}"
    dumped = " and dumped core" if status & 0x80 else ""
    return f"was killed by {signal_name(number)}{dumped}"
