"""Unwinds copied stacks by drgn. Imported in the unwinding process only (livedbg.unwind.helper).

A file is given to drgn, with its load address, when a frame lies in it. drgn unwinds by the tables in the file itself
(`.eh_frame`), which takes a twentieth of the time that debug information takes; debug information is asked once for
each address (livedbg.unwind.places).

How much of a stack is sure: where a function has no unwind tables, drgn uses the frame pointer register, which need not
hold a frame pointer; where the frame pointer is a guess, so is what rests on it. Such a step is made again from the
function's code (livedbg.unwind.callers).

Invariants:
    drgn_stacks.D1. Only files that a frame lies in are opened.
    drgn_stacks.D2. No request is made to the network.
    drgn_stacks.D3. A stack that may lack outer frames is not said to be whole.
    drgn_stacks.T1. A step that rests on a guess is checked, made otherwise, or makes the stack one that is not sure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import drgn

from livedbg.linux import memory
from livedbg.linux import registers as machine
from livedbg.unwind.callers import Caller, Callers
from livedbg.unwind.drgn_files import KeptProgram, Programs
from livedbg.unwind.frame_values import ValueReader
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.places import Places
from livedbg.unwind.unwound import DEPTH, is_root
from livedbg.unwind.wire import Copied, Reply, Request, WireFrame, WireStack

_WORD: Final = 8
_FRAME: Final = 2 * _WORD  # a saved frame pointer and a return address


class Call(NamedTuple):
    """A call on a stack.

    Attributes:
        interrupted: `pc` is an interrupted instruction, and not a return address.
        frames: drgn's frames of the call, the innermost inlined function first.
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
        """The stack pointer, or None if it isn't known."""
        try:
            return int(self.frames[-1].sp)
        except LookupError:
            return None

    @property
    def frame_pointer(self) -> int | None:
        """The frame pointer, or None if it isn't known."""
        return _register(self.frames[-1], machine.FRAME_POINTER_NAME)


class Trace(NamedTuple):
    """The calls that drgn found.

    Attributes:
        above: the stack pointer of the frame beyond, if there is one. Where the unwind tables say that nothing called
            the outermost frame, the frame beyond has a stack pointer and no program counter; so has one whose return
            address was not copied, which says nothing.
    """

    calls: list[Call]
    above: int | None

    @classmethod
    def of(cls, trace: drgn.StackTrace, *, behind: bool = False) -> Trace:
        """Make a trace from drgn's; `behind`: it begins within a call, as `registers_from` makes it."""
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
    """The part of a trace that can be followed.

    Attributes:
        calls: the calls that are kept.
        caller: where the stack goes on instead.
        ended: the unwind tables say that the stack ends.
        sure: no call rests on a guess.
    """

    calls: list[Call]
    caller: Caller | None
    ended: bool
    sure: bool


def leads(trace: Trace, callers: Callers, thread: Copied, guess: int | None) -> Led:
    """Return the part of a trace that can be followed; `guess` is a guessed frame pointer, or None."""
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
    """Return the registers of a call from which drgn unwinds on: its first frame lies within that call.

    `callee` is the called function; it keeps the other registers.
    """
    registers = [0] * machine.COUNT
    for name, place in machine.KEPT.items():
        registers[place] = _register(callee.frames[-1], name) or 0
    registers[machine.PC], registers[machine.SP] = caller.pc - 1, caller.sp
    registers[machine.FRAME_POINTER] = caller.frame_pointer or 0
    return registers


def _rests(call: Call, after: Call, callers: Callers, guess: int | None) -> bool:
    """Return whether the step from one call to the next rests on what may be no frame pointer."""
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


_Later: TypeAlias = Callable[[int, tuple[WireFrame, ...]], list[frozenset[str]]]
_ROUNDS: Final = 256


class _Walked(NamedTuple):
    """The calls of one thread, and `again` with other values in the unknown registers; empty if that changes them."""

    tid: int
    calls: list[Call]
    ended: bool
    sure: bool
    again: list[Call]


def answer(request: Request, places: Places, programs: Programs) -> Reply:
    """Unwind the threads of a request; the reply has an error if none has a stack."""
    places.begin()
    modules = Modules(request.pid, [mapping.mapping() for mapping in request.mappings])
    program = programs.of(request, modules)
    try:
        program.stacks.take(Path(request.stacks), request.threads)
        return _answer(request, modules, places, program)
    finally:
        program.stacks.clear()


def _answer(request: Request, modules: Modules, places: Places, program: KeptProgram) -> Reply:
    copies = _Copies(request, modules, places, program)
    walked: list[_Walked] = []
    why = ""
    for thread in request.threads:
        try:
            walked.append(copies.walk(thread))
        except Exception as error:  # whatever drgn says of one thread, the others have their stacks
            why = why or in_words(error)
    if not walked:
        return Reply(why)
    return _reply(request, walked, _described(request, walked, modules, places), partial(_later, modules, places))


def in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace").decode()


class _Copies:
    """The copied stacks of a request, and the files that were opened for them so far."""

    def __init__(self, request: Request, modules: Modules, places: Places, program: KeptProgram) -> None:
        self._modules = modules
        self._places = places
        self._debug = request.debug
        self._values = request.values and request.debug
        self._seen: set[int] = set()
        self._program = program
        self._callers = Callers(request.pid, modules, places, program.stacks.read)

    def walk(self, thread: Copied) -> _Walked:
        trace = self._traced(thread.registers)
        again = self._again(thread, trace.calls) if self._values else []
        calls: list[Call] = []
        guess = trace.calls[0].frame_pointer if thread.guessed and trace.calls else None
        unsure = thread.guessed
        sure = True
        for _ in range(_ROUNDS):
            known = leads(trace, self._callers, thread, guess if unsure else None)
            calls += known.calls
            sure = sure and known.sure
            if known.caller is None or len(calls) > DEPTH:
                break
            unsure, guess = known.caller.frame_pointer is None, 0
            trace = self._traced(registers_from(known.caller, known.calls[-1]), behind=True)
            if not trace.calls:
                break
        return _Walked(thread.tid, calls, known.ended, sure, again if len(again) == len(calls) else [])

    def _traced(self, registers: Sequence[int], *, behind: bool = False) -> Trace:
        """Unwind from registers until no further file needs to be opened."""
        for _ in range(_ROUNDS):
            trace = Trace.of(self._program.stack(registers), behind=behind)
            fresh = [call.inside for call in trace.calls if call.inside not in self._seen]
            opened = [counter for counter in fresh if self._open_at(counter)]
            self._seen.update(fresh)
            if not opened:
                break
        return trace

    def _again(self, thread: Copied, calls: list[Call]) -> list[Call]:
        for registers in thread.doubted:
            again = Trace.of(self._program.stack(registers)).calls
            if [call.pc for call in again] == [call.pc for call in calls]:
                return again
        return []

    def _open_at(self, counter: int) -> bool:
        """Open the file that holds an address; return True if that is new, so that the trace may go on from there."""
        module = self._modules.at(counter)
        if module is None:
            return False
        debug = self._values or (self._debug and self._places.file_of(module).debug_frames)
        return self._program.open(module, debug=debug)


def _described(
    request: Request, walked: list[_Walked], modules: Modules, places: Places
) -> dict[int, tuple[WireFrame, ...]]:
    """Return the frames at each address. Grouped by file, so that its symbols are read once."""
    by_module: dict[Module | None, set[int]] = {}
    for address in {call.inside for stack in walked for call in stack.calls}:
        by_module.setdefault(modules.at(address), set()).add(address)
    found: dict[int, tuple[WireFrame, ...]] = {}
    for module, addresses in by_module.items():
        if module is None:
            found |= dict.fromkeys(addresses, (WireFrame(0),))
            continue
        there = places.describe(module, {address - module.bias for address in addresses}, debug=request.debug)
        found |= {address: there[address - module.bias] for address in addresses}
    return found


def _later(modules: Modules, places: Places, address: int, frames: tuple[WireFrame, ...]) -> list[frozenset[str]]:
    module = modules.at(address)
    if module is None:
        return [frozenset()] * len(frames)
    return places.later_variables(module, address - module.bias, frames)


def _reply(
    request: Request, walked: list[_Walked], described: dict[int, tuple[WireFrame, ...]], later: _Later
) -> Reply:
    frames: list[WireFrame] = []
    reader = ValueReader(partial(memory.read, request.pid)) if request.values else None
    known: dict[tuple[int, bool], tuple[int, ...]] = {}
    stacks: list[WireStack] = []
    for stack in walked:
        numbers: list[int] = []
        for place, call in enumerate(stack.calls[:DEPTH]):
            key = call.pc, call.interrupted
            if reader is not None or key not in known:
                begin = len(frames)
                again = stack.again[place] if stack.again else None
                frames += _of_call(call, again, described[call.inside], reader, later)
                known[key] = tuple(range(begin, len(frames)))
            numbers += known[key]
        cut = len(numbers) > DEPTH or len(stack.calls) > DEPTH
        outermost = frames[numbers[-1]].function if numbers else None
        root = outermost is not None and (is_root(outermost) or outermost == "main")
        whole = bool(numbers) and stack.sure and not cut and (root or stack.ended)
        stacks.append(WireStack(stack.tid, numbers[:DEPTH], whole))
    return Reply("", frames, stacks)


def _of_call(
    call: Call, again: Call | None, described: tuple[WireFrame, ...], reader: ValueReader | None, later: _Later
) -> list[WireFrame]:
    made = []
    not_set = later(call.inside, described) if reader is not None else []
    for number, frame in enumerate(described):
        values: tuple[str, ...] = ()
        if reader is not None and again is not None and len(call.frames) == len(again.frames) == len(described):
            values = reader.values_of(call.frames[number], again.frames[number], not_set[number])
        made.append(WireFrame(call.pc, frame.function, frame.file, frame.line, frame.column, frame.inlined, values))
    return made
