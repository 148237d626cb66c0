"""What drgn has of a stack, and how much of it is sure.

Where a function has no unwind tables, drgn takes its frame pointer for that of a frame, which it may not be; where the
frame pointer is a guess, what rests on it is one. Such a step is made again from the function's code
(livedbg.unwind.callers).

Invariants:
    traces.T1. A step that rests on a guess is checked, made otherwise, or makes the stack one that is not sure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import drgn

from livedbg.linux import registers as machine
from livedbg.unwind.callers import Caller, Callers
from livedbg.unwind.wire import Copied

__all__ = ["Call", "Led", "Trace", "leads", "registers_from"]

_WORD: Final = 8
_FRAME: Final = 2 * _WORD  # a saved frame pointer and a return address


class Call(NamedTuple):
    """One call of a stack.

    Attributes:
        pc: the program counter.
        interrupted: it is of an instruction that was interrupted, and not the one behind a call.
        frames: what drgn has of it: what was inlined first.
    """

    pc: int
    interrupted: bool
    frames: tuple[drgn.StackFrame, ...]

    @property
    def inside(self) -> int:
        """An address within the instruction."""
        return self.pc if self.interrupted else self.pc - 1

    @property
    def sp(self) -> int | None:
        """The stack pointer; None where it isn't known."""
        try:
            return int(self.frames[-1].sp)
        except LookupError:
            return None

    @property
    def frame_pointer(self) -> int | None:
        """The frame pointer; None where it isn't known."""
        return _register(self.frames[-1], machine.FRAME_POINTER_NAME)


class Trace(NamedTuple):
    """The calls that drgn found.

    Attributes:
        above: the stack pointer of the frame beyond, where there is one. Where the unwind tables say that nothing
            called the outermost frame, the frame beyond has a stack pointer and no program counter; so has one whose
            return address was not copied, which says nothing.
    """

    calls: list[Call]
    above: int | None

    @classmethod
    def of(cls, trace: drgn.StackTrace, *, behind: bool = False) -> Trace:
        """The calls of a trace.

        Args:
            trace: drgn's.
            behind: it begins within a call, as `registers_from` makes it.
        """
        calls: list[Call] = []
        inlined: list[drgn.StackFrame] = []
        for frame in trace:
            inlined.append(frame)
            if frame.is_inline:
                continue
            first = behind and not calls
            try:
                calls.append(Call(frame.pc + first, frame.interrupted and not first, tuple(inlined)))
            except LookupError:
                try:
                    return cls(calls, frame.sp)
                except LookupError:
                    return cls(calls, None)
            inlined = []
        return cls(calls, None)


class Led(NamedTuple):
    """How far a trace can be followed.

    Attributes:
        calls: those of it that are kept.
        caller: where the stack goes on instead.
        ended: the unwind tables say that there are no more.
        sure: none of them rests on a guess.
    """

    calls: list[Call]
    caller: Caller | None
    ended: bool
    sure: bool


def leads(trace: Trace, callers: Callers, thread: Copied, guess: int | None) -> Led:
    """How far a trace can be followed.

    Args:
        trace: of drgn's.
        callers: finds those that it lacks.
        thread: whose stack it is.
        guess: what was guessed for the frame pointer; None where it is known.
    """
    sure = True
    calls = trace.calls
    ended = trace.above is not None and thread.low <= trace.above - _WORD and trace.above <= thread.high
    for number, call in enumerate(calls):
        after = calls[number + 1] if number + 1 < len(calls) else None
        if after is None and ended:
            break
        if after is not None and not _rests(call, after, callers, guess):
            continue
        caller = _caller(call, callers, guess, thread.high)
        if caller is not None and after is not None and (caller.pc, caller.sp) == (after.pc, after.sp):
            continue
        if caller is not None:
            return Led(calls[: number + 1], caller, ended=False, sure=sure)
        if after is not None:
            sure = False
            if not callers.may_have_called(after.pc, call.pc):
                return Led(calls[: number + 1], None, ended=False, sure=False)
    return Led(calls, None, ended, sure)


def registers_from(caller: Caller, callee: Call) -> list[int]:
    """The registers of a call, for what drgn finds above it: its first frame lies within that call.

    Args:
        caller: the call.
        callee: what it called; it keeps the other registers.
    """
    registers = [0] * machine.COUNT
    for name, place in machine.KEPT.items():
        registers[place] = _register(callee.frames[-1], name) or 0
    registers[machine.PC], registers[machine.SP] = caller.pc - 1, caller.sp
    registers[machine.FRAME_POINTER] = caller.frame_pointer or 0
    return registers


def _rests(call: Call, after: Call, callers: Callers, guess: int | None) -> bool:
    """Whether the step from one call to the next rests on what may be no frame pointer."""
    if guess is not None and after.sp == guess + _FRAME and call.frame_pointer == guess:
        return True
    return callers.has_tables(call.inside) is False


def _caller(call: Call, callers: Callers, guess: int | None, top: int) -> Caller | None:
    sp, frame_pointer = call.sp, call.frame_pointer
    if sp is None:
        return None
    return callers.of(call.pc, call.inside, sp, None if frame_pointer == guess else frame_pointer, top)


def _register(frame: drgn.StackFrame, name: str) -> int | None:
    try:
        return int(frame.register(name))
    except LookupError:
        return None
