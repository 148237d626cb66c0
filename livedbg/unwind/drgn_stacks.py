"""Copied stacks by drgn. Imported in the unwinding process only (livedbg.unwind.helper).

A file is given to drgn when a frame lies in it, with its place in the process. It unwinds by the tables in the file
itself (`.eh_frame`), which takes a twentieth of the time that it takes with debug information; that is asked for each
address once (livedbg.unwind.places).

Invariants:
    drgn_stacks.D1. Only files that a frame lies in are opened.
    drgn_stacks.D2. No request is made to the network.
    drgn_stacks.D3. A stack that may lack outer frames is not said to be whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from livedbg.linux import memory
from livedbg.unwind.callers import Callers
from livedbg.unwind.frame_values import ValueReader
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.places import Places
from livedbg.unwind.programs import KeptProgram, Programs
from livedbg.unwind.traces import Call, Trace, leads, registers_from
from livedbg.unwind.unwound import DEPTH, is_root
from livedbg.unwind.wire import Copied, Reply, Request, WireFrame, WireStack

__all__ = ["answer"]

_Later: TypeAlias = Callable[[int, tuple[WireFrame, ...]], list[frozenset[str]]]
_ROUNDS: Final = 256


class _Walked(NamedTuple):
    """The calls of one thread.

    Attributes:
        ended: the unwind tables say that there are no more.
        sure: none of them rests on a guess.
        again: the same calls with other values of the registers that are not known; none where that changes them.
    """

    tid: int
    calls: list[Call]
    ended: bool
    sure: bool
    again: list[Call]


def answer(request: Request, places: Places, programs: Programs) -> Reply:
    """The stacks of the threads that have one; an error where none has."""
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
    """An error as it goes over the wire."""
    return f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace").decode()


class _Copies:
    """Copied stacks, and the files of their process that were opened so far."""

    def __init__(self, request: Request, modules: Modules, places: Places, program: KeptProgram) -> None:
        self._modules = modules
        self._places = places
        self._debug = request.debug
        self._values = request.values and request.debug
        self._seen: set[int] = set()
        self._program = program
        self._callers = Callers(request.pid, modules, places, program.stacks.read)

    def walk(self, thread: Copied) -> _Walked:
        """The calls of one thread, with all the files that they lie in."""
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
        """A trace with all the files that it leads into."""
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
        """Open the file that an address is in; whether it was not open yet, so that the trace may go on from it."""
        module = self._modules.at(counter)
        if module is None:
            return False
        debug = self._values or (self._debug and self._places.file_of(module).debug_frames)
        return self._program.open(module, debug=debug)


def _described(
    request: Request, walked: list[_Walked], modules: Modules, places: Places
) -> dict[int, tuple[WireFrame, ...]]:
    """What is at each address, by file: its symbols are read once for all addresses."""
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
    """For each frame at an address, the variables that are declared behind its line."""
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
