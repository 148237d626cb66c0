"""What an ending of a job or a process is: how near to the cause a line about it is, and what it says.

Invariants:
    host_kinds.K1. Who says it, and whether a limit of time did it, are fields: nothing looks for words of a sentence.
"""

from __future__ import annotations

import signal
from enum import StrEnum
from typing import Final

from msgspec import Struct

from livedbg.model import CauseClass

__all__ = ["Ending", "Kind", "fault_of", "signal_name", "signal_words"]

_SHELL_ADDS: Final = 128
_FAULTS: Final = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)


class Kind(StrEnum):
    """How near to the cause a line is."""

    CAUSE = "cause"  # from outside: the kernel for memory, a scheduler at a limit, a node that failed
    ABORTED = "aborted"  # the program ended itself on purpose
    KILLED = "killed"  # SIGKILL, and it isn't said by whom
    WORKER = "worker"  # a helper process of the program ended by a fault
    LOST = "lost"  # the program lost a helper process, and it isn't said how that ended
    SUMMARY = "summary"  # a launcher's account of who ended first, and how
    CANCELLED = "cancelled"  # asked to end, and it isn't said why: somebody's wish, or since a part of it failed

    @property
    def cause(self) -> CauseClass:
        """The same in the classes of all systems."""
        return _CLASSES[self]


_CLASSES: Final = {
    Kind.CAUSE: CauseClass.HOST,
    Kind.ABORTED: CauseClass.PROCESS,
    Kind.KILLED: CauseClass.PROCESS,
    Kind.WORKER: CauseClass.PROCESS,
    Kind.LOST: CauseClass.PEER,
    Kind.SUMMARY: CauseClass.SUMMARY,
    Kind.CANCELLED: CauseClass.SUMMARY,
}


class Ending(Struct, frozen=True):
    """One of them.

    Attributes:
        key: tells it from others of its kind.
        sentence: without its full stop.
        pid: the process that it names; 0 for none.
        steps: what to do.
        writer: whose end it is, as `Diagnostic.writer`.
        late: it is written when all is over.
        shell: a shell says so, which may go on.
        limit: a limit of time ended it.
        fault: a signal of a fault ended it: what is killed after it is killed for it.
        outside: what started it says so, which may have started others.
        interpreter: its name is one of those that the processes of a job of GPUs have.
    """

    kind: Kind
    key: str
    sentence: str
    pid: int = 0
    steps: tuple[str, ...] = ()
    writer: str = ""
    late: bool = True
    shell: bool = False
    limit: bool = False
    fault: bool = False
    outside: bool = False
    interpreter: bool = False


def signal_name(number: int) -> str:
    """`SIGKILL`, `signal 63`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_words(number: int) -> str:
    """`SIGSEGV: Segmentation fault`, `signal 63`."""
    said = signal.strsignal(number) if number < signal.NSIG else None
    return f"{signal_name(number)}: {said}" if said else signal_name(number)


def fault_of(code: int) -> str:
    """` (SIGSEGV: Segmentation fault)` of an exit code that a shell makes of a signal; "" of another."""
    number = code - _SHELL_ADDS
    return f" ({signal_words(number)})" if number in _FAULTS else ""
