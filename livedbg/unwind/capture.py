"""Copies registers and stack tops of threads; those of blocked threads without a stop.

The stack pointer, program counter and arguments of a thread in a system call are in /proc/PID/task/TID/syscall
(proc(5)); its stack can be read by process_vm_readv(2). Its other registers can't be had; unwind tables that start from
the stack pointer don't need them.

Also explains why a thread can't be stopped (`refusal`).

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
from livedbg.linux.ending import has_ended
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import BlockedSyscall, read_file, status_fields, thread_ids
from livedbg.text.sanitize import clean_line

STACK_BYTES: Final = 96 * 1024
"""How much of a stack is copied."""

_ALL_BITS: Final = (1 << 64) - 1
_CHAIN: Final = 4 * 1024  # bytes above the stack pointer in which a frame chain is searched


class ThreadCopy(NamedTuple):
    """The copied registers and stack top of one thread.

    Attributes:
        registers: in the order of livedbg.linux.registers; 0 if unknown.
        low: address of the first byte of `stack`.
        guessed: the frame pointer was not read from a register: it is where a chain of frames seems to begin.
    """

    tid: int
    registers: tuple[int, ...]
    low: int
    stack: bytes
    guessed: bool = False

    @property
    def pc(self) -> int:
        return self.registers[machine.PC]


class Capture(Struct, frozen=True):
    """The copies of one process; of `moving` threads, which run or moved meanwhile, no native stack is known."""

    pid: int
    threads: tuple[ThreadCopy, ...]
    moving: tuple[int, ...]
    mappings: tuple[Mapping, ...]


def capture(pid: int, tids: Sequence[int]) -> Capture:
    """Copy the stacks of the blocked threads among the given ones.

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
    """Return the same copy with other values in the unknown registers: a value that changes with them can't be trusted.

    A register that is 0 may be unknown, and the frame pointer is a guess. The first copy changes the frame pointer too;
    the second keeps the guess, for stacks that rest on it.
    """
    unknown = {place for place in machine.GENERAL if not copy.registers[place]}

    def inverted(places: set[int]) -> ThreadCopy:
        values = (_ALL_BITS ^ value if place in places else value for place, value in enumerate(copy.registers))
        return copy._replace(registers=tuple(values))

    return inverted(unknown | {machine.FRAME_POINTER}), inverted(unknown - {machine.FRAME_POINTER})


class StackReader:
    """Copies the stacks of the blocked threads of a process.

    Raises:
        OSError: the process is gone or its mappings may not be read.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.refresh()

    def refresh(self) -> None:
        """Read the mappings again: the stack of a new thread is a new mapping. Raises as the constructor does."""
        self.mappings = tuple(parse_maps(self._pid))
        self._readable = [mapping for mapping in self.mappings if mapping.permissions[0] == "r"]
        self._starts = [mapping.start for mapping in self._readable]

    def part(self, sp: int) -> tuple[int, int] | None:
        """Return address and size of the memory to copy for a stack pointer; None if nothing is mapped there."""
        place = bisect_right(self._starts, sp) - 1
        if place < 0 or sp >= self._readable[place].end:
            return None
        low = max(self._readable[place].start, sp - machine.RED_ZONE)
        return low, min(self._readable[place].end, sp + STACK_BYTES) - low

    def blocked(self, tid: int) -> ThreadCopy | None:
        """Return a copy of a blocked thread; None if it runs, moved meanwhile or is gone."""
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
    """Return the registers that a blocked system call gives away.

    `frame_pointer` is a guess, or 0; it matters only where the unwind tables start from the frame pointer.
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
    """Return where the innermost chain of two saved frame pointers begins, or 0.

    The frame pointer of a function that keeps one points to the caller's, and the return address is in the next word
    (System V AMD64 ABI, figure 3.3).
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
        if address < caller < high and is_frame(address) and (is_frame(caller) or caller > high - 16):
            return address  # the last one may lead out of the copy
    return 0


class Refusal(NamedTuple):
    """The reason why the kernel refuses to trace a thread.

    Attributes:
        code: `traced`, `ended`, `moving`, `late`, `no-cpu`, `uninterruptible`, `foreign-machine`, `livedbg`, or one of
            livedbg.linux.access.Problem.
        sentence: the reason, with "it" for the thread.
    """

    code: str
    sentence: str
    remedy: str = ""


def refusal(pid: int, tid: int, error: OSError) -> Refusal:
    """Return why the kernel refused to let us trace a thread."""
    ended = Refusal("ended", "it has ended")
    if not isinstance(error, PermissionError) or has_ended(pid, tid):
        return ended
    try:
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
