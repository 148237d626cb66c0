"""Which signals a process handles: SigCgt of /proc/PID/status (proc_pid_status(5)).

Invariants:
    handled_signals.H1. Faults, and the signals that C libraries keep for themselves, are none of them: a thread that
        waits causes no fault, and a library's own signal ends no wait of the program.
"""

from __future__ import annotations

import signal
from typing import Final

from livedbg.linux.procfs import status_fields

_FAULTS: Final = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGABRT}
)
_INTERNAL: Final = frozenset({32, 33, 34})
"""SIGCANCEL, SIGSETXID, SIGSYNCCALL."""


def handled_signals(pid: int) -> list[int]:
    """The signals that it handles (H1), in the order of their numbers.

    Raises:
        OSError: it is gone, or may not be looked at.
        KeyError, ValueError: the kernel does not say.
    """
    mask = int(status_fields(pid)["SigCgt"], 16)
    caught = [number for number in range(1, 65) if mask >> (number - 1) & 1]
    return [number for number in caught if number not in _FAULTS and number not in _INTERNAL]


def signal_name(number: int) -> str:
    """Return `SIGUSR1`; `SIGRTMIN+6` for a real-time signal (signal(7)); `signal 32` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else f"signal {number}"
