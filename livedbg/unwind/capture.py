"""Copies of registers and stack tops of threads; of blocked ones, without stopping any.

A thread that sits in a system call has its stack pointer, program counter and arguments in
/proc/PID/task/TID/syscall (proc(5)); its stack can be read by process_vm_readv(2). What it holds in other
registers is not to be had; unwind tables that start from the stack pointer don't need it.

Why a thread can't be stopped, in words.

Invariants:
    capture.K1. A thread that moved while its stack was copied gives no copy.
    capture.K2. Of what is not known of the registers each bit differs between a copy and its doubted ones.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.linux import memory, procfs
from livedbg.linux import registers as machine
from livedbg.linux.access import access_problem
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import BlockedSyscall, read_file, read_stat, status_fields, thread_ids
from livedbg.model import ThreadState
from livedbg.text.sanitize import clean_line

STACK_BYTES: Final = 96 * 1024
"""How much of a stack is copied."""

_ALL_BITS: Final = (1 << 64) - 1
_CHAIN: Final = 4 * 1024  # bytes above the stack pointer in which a frame chain is searched


class ThreadCopy(NamedTuple):
    """One thread.

    Attributes:
        registers: in the order of livedbg.linux.registers; what isn't known is 0.
        low: address of the first byte of `stack`.
        guessed: the frame pointer is no register's value: where a chain of frames seems to begin.
    """

    tid: int
    registers: tuple[int, ...]
    low: int
    stack: bytes
    guessed: bool = False

    @property
    def pc(self) -> int:
        """The program counter."""
        return self.registers[machine.PC]


class Capture(Struct, frozen=True):
    """What was copied of one process.

    Attributes:
        moving: threads that run, or moved meanwhile: nothing is known of their native stacks.
    """

    pid: int
    threads: tuple[ThreadCopy, ...]
    moving: tuple[int, ...]
    mappings: tuple[Mapping, ...]


def capture(pid: int, tids: Sequence[int]) -> Capture:
    """Copy the stacks of those threads that are blocked.

    Raises:
        OSError: the process is gone or its mappings may not be read.
    """
    reader = StackReader(pid)
    copies: list[ThreadCopy] = []
    moving: list[int] = []
    for tid in tids:
        copy = reader.blocked(tid)
        if copy is None:
            moving.append(tid)
        else:
            copies.append(copy)
    return Capture(pid, tuple(copies), tuple(moving), reader.mappings)


def doubted(copy: ThreadCopy) -> tuple[ThreadCopy, ThreadCopy]:
    """The same copy with other values of the registers that are not known: a value that differs rests on them.

    What is 0 may be unknown, and the frame pointer is a guess: the second has the guess, for stacks that rest on it.
    """
    unknown = {place for place in machine.GENERAL if not copy.registers[place]}

    def inverted(places: set[int]) -> ThreadCopy:
        values = (_ALL_BITS ^ value if place in places else value for place, value in enumerate(copy.registers))
        return copy._replace(registers=tuple(values))

    return inverted(unknown | {machine.FRAME_POINTER}), inverted(unknown - {machine.FRAME_POINTER})


class StackReader:
    """Where the stacks of a process lie, and copies of those of its blocked threads.

    Args:
        pid: the process.

    Raises:
        OSError: it is gone or its mappings may not be read.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.refresh()

    def refresh(self) -> None:
        """Read the mappings again: a thread that is new has a stack that is new.

        Raises:
            OSError: the process is gone or its mappings may not be read.
        """
        self.mappings = tuple(parse_maps(self._pid))
        self._readable = [mapping for mapping in self.mappings if mapping.permissions[0] == "r"]
        self._starts = [mapping.start for mapping in self._readable]

    def part(self, sp: int) -> tuple[int, int] | None:
        """First address and size of what is to be copied for a stack pointer; None where no memory is known."""
        place = bisect_right(self._starts, sp) - 1
        if place < 0 or sp >= self._readable[place].end:
            return None
        low = max(self._readable[place].start, sp - machine.RED_ZONE)
        return low, min(self._readable[place].end, sp + STACK_BYTES) - low

    def blocked(self, tid: int) -> ThreadCopy | None:
        """A copy of a thread that is blocked; None when it runs, moved meanwhile, or has gone."""
        try:
            before = procfs.blocked_syscall(self._pid, tid)
            if not isinstance(before, BlockedSyscall) or before.sp == 0:
                return None
            part = self.part(before.sp)
            if part is None:
                return None
            low, size = part
            stack = memory.read(self._pid, low, size)
            if procfs.blocked_syscall(self._pid, tid) != before:
                return None
        except OSError:
            return None
        registers = _registers(before, _frame_chain(stack, low, before.sp, self._readable, self._starts))
        return ThreadCopy(tid, registers, low, stack, True)


def _registers(call: BlockedSyscall, frame_pointer: int) -> tuple[int, ...]:
    """The registers, as far as a blocked system call has them.

    Args:
        call: what /proc has of it.
        frame_pointer: where a chain of frame pointers seems to begin; 0 when none was found. It is a guess
            that matters only where the unwind tables start from the frame pointer.
    """
    registers = [0] * machine.COUNT
    registers[machine.FRAME_POINTER] = frame_pointer
    registers[machine.CALL_NUMBER] = call.number & _ALL_BITS
    registers[machine.PC], registers[machine.SP] = call.pc, call.sp
    for place, value in machine.CONSTANTS.items():
        registers[place] = value
    if call.args:
        for place, value in zip(machine.ARGUMENTS, call.args, strict=True):
            registers[place] = value
    return tuple(registers)


def _frame_chain(stack: bytes, low: int, sp: int, readable: list[Mapping], starts: list[int]) -> int:
    """Where the innermost chain of two saved frame pointers begins, or 0.

    A function that keeps a frame pointer has, at its frame pointer, the caller's one, and the return
    address in the next word (System V AMD64 ABI, figure 3.3).
    """
    high = low + len(stack)

    def word(address: int) -> int:
        value: int = struct.unpack_from("<Q", stack, address - low)[0]
        return value

    def is_frame(address: int) -> bool:
        if not sp <= address <= high - 16 or address & 7:
            return False
        place = bisect_right(starts, word(address + 8)) - 1
        return place >= 0 and word(address + 8) < readable[place].end and readable[place].executable

    for address in range((sp + 7) & ~7, min(high - 16, sp + _CHAIN), 8):
        caller = word(address)
        if address < caller < high and is_frame(address) and (is_frame(caller) or _leads_out(caller, high)):
            return address
    return 0


def _leads_out(caller: int, high: int) -> bool:
    """Whether a saved frame pointer leads out of what was copied."""
    return caller > high - 16


class Refusal(NamedTuple):
    """Why.

    Attributes:
        code: `traced`, `ended`, `moving`, `late`, `no-cpu`, `uninterruptible`, `foreign-machine`, `livedbg`,
            or one of livedbg.linux.access.Problem.
        sentence: why, with "it" for the thread.
        remedy: how to fix it.
    """

    code: str
    sentence: str
    remedy: str = ""


def refusal(pid: int, tid: int, error: OSError) -> Refusal:
    """Why the kernel refused to let us trace a thread.

    Args:
        pid: its process.
        tid: the thread.
        error: the error of the kernel.
    """
    ended = Refusal("ended", "it has ended")
    if not isinstance(error, PermissionError):
        return ended
    try:
        if read_stat(pid, tid).state in (ThreadState.ZOMBIE, ThreadState.DEAD):
            return ended
        tracer = int(status_fields(pid, tid).get("TracerPid", "0"))
    except OSError:
        return ended
    if tracer:
        return Refusal(
            "traced",
            f"it is already traced by {_name(tracer)} (pid {tracer}); a thread can have only one tracer",
            f"end {_name(tracer)}, or detach it from {pid}, then try again",
        )
    if tid in thread_ids(os.getpid()):
        return Refusal("livedbg", "it is livedbg itself")
    problem = access_problem(pid)
    if problem is not None:
        return Refusal(problem.code, problem.sentence, problem.remedy)
    return Refusal(
        "refused",
        "the kernel forbids ptrace here, by a seccomp profile or a security module",
        "docker run --cap-add=SYS_PTRACE …   or in Kubernetes: securityContext.capabilities.add: [SYS_PTRACE]",
    )


def _name(pid: int) -> str:
    try:
        return clean_line(read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()) or "another program"
    except OSError:
        return "another program"
