"""Sample all devices once, with a limited number of queries.

Coalesced commands are used: a GPU with 132 SMs of 64 warps takes about ten answers. Threads are queried only if most
of them are at the same place, because each thread elsewhere is a row of its own.

The instruction at which warps are shows whether and for what they wait: names by the CUDA Binary Utilities manual
("Instruction Set Reference": Volta to Blackwell). The program counter of a warp is that of its next instruction: the
warp has not executed it yet, or runs in a loop around it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from livedbg.adapters.cuda.cudagdb.engine import Queries
from livedbg.adapters.cuda.cudagdb.tables import (
    BlockRow,
    ContextRow,
    DeviceRow,
    Focus,
    KernelRow,
    LaneRow,
    SmRow,
    ThreadRow,
    WarpRow,
)
from livedbg.gdbmi.errors import GdbGone
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_INSTRUCTION_LINE: Final = lazy_re(
    r"^(?:=>|\*>|\*=>)?\s{0,100}0x[0-9a-fA-F]{1,400}(?: <[^\n]{0,2000}?>)?:\s{1,100}(\S[^\n]{0,2000})$", re.MULTILINE
)
_NAME: Final = lazy_re(r"^(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Z0-9_]+)*)")

_MEANINGS: Final[Mapping[str, str]] = {
    "BAR": "waits at a block barrier (__syncthreads)",
    "B2R": "waits at a block barrier (__syncthreads)",
    "UCGABAR_WAIT": "waits at a cluster barrier",
    "BSYNC": "waits for the other lanes of its warp to come back together",
    "WARPSYNC": "waits for the other lanes of its warp (__syncwarp)",
    "WARPSYNCS": "waits for the other lanes of its warp (__syncwarp)",
    "SYNCS": "waits at an mbarrier (asynchronous copies, cluster barriers)",
    "NANOSLEEP": "sleeps between two polls (__nanosleep)",
    "YIELD": "yields in a loop",
    "DEPBAR": "waits for its own memory accesses",
    "LDGDEPBAR": "waits for its own asynchronous copies",
    "MEMBAR": "waits until its writes are seen (__threadfence)",
    "ERRBAR": "waits until errors of its accesses are known",
    "WARPGROUP": "waits for a matrix operation of its warp group",
    "ACQBULK": "waits for the kernel before it (programmatic launch)",
    "BPT": "stopped at a trap (__trap, or an assert)",
    "EXIT": "is about to end",
}
_FAMILIES: Final = (
    (lazy_re(r"LD|ULD"), "reads memory: in a loop it polls"),
    (lazy_re(r"ATOM|RED"), "changes memory atomically: in a loop it polls"),
    (lazy_re(r"ST"), "writes memory"),
    (lazy_re(r"BRA|JMP|BRX|JMX|BREAK"), "jumps: it runs in a loop"),
    (lazy_re(r"ISETP|UISETP|PLOP"), "compares: it runs in a loop, or soon continues"),
)


def instruction_of(printed: str) -> str:
    """Return the instruction in the output of `x/i ADDRESS`; "" if there is none."""
    found = _INSTRUCTION_LINE.search(printed[:4096])
    return clean_line(found[1], 120).strip() if found else ""


def meaning_of(instruction: str) -> str:
    """Return what a warp at that instruction does; "" if not known."""
    found = _NAME.match(instruction)
    if found is None:
        return ""
    name = found[1]
    if name == "BAR" and ".ARV" in found[2]:
        return ""  # arrives, and goes on
    if name in _MEANINGS:
        return _MEANINGS[name]
    return next((words for family, words in _FAMILIES if family.match(name)), "")


_KERNELS: Final = 64  # whose blocks and threads are asked for
_RANGES: Final = 30_000  # of threads, as many as one answer may have
_APART: Final = 8  # ranges that a divergent warp makes, about
_SYMBOLS: Final = 64
_INSTRUCTIONS: Final = 16
_WARPS_ASKED: Final = 32  # for exceptions of their lanes
_FRAMES: Final = 40
_LINES: Final = 40
_DEVICE_FRAME: Final = "m68k"  # what cuda-gdb says of a frame on the device
_SYMBOL: Final = lazy_re(r"^(.+?)(?: \+ (\d{1,18}))? in section ")
_LINE: Final = lazy_re(r'^Line (\d{1,18}) of "([^"\n]+)"')


@dataclass(frozen=True, slots=True)
class Symbol:
    """Symbol of an address: `spin(int*)+64` if there is no line; the first few have their instruction."""

    function: str = ""
    file: str | None = None
    line: int | None = None
    instruction: str = ""


@dataclass(slots=True)
class DeviceSample:
    """A debugger's reports.

    Attributes:
        opened: its output when it opened the target.
        lanes: (device, SM, warp) -> lanes.
        notes: what could not be read.
    """

    opened: str = ""
    devices: list[DeviceRow] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    warps: list[WarpRow] = field(default_factory=list)
    blocks: list[BlockRow] = field(default_factory=list)
    threads: list[ThreadRow] = field(default_factory=list)
    lanes: dict[tuple[int, int, int], list[LaneRow]] = field(default_factory=dict)
    symbols: dict[int, Symbol] = field(default_factory=dict)
    focus: Focus | None = None
    stack: tuple[Frame, ...] = ()
    barriers: tuple[str, ...] = ()
    contexts: list[str] = field(default_factory=list)
    managed: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


async def sample_devices(queries: Queries, opened: str) -> DeviceSample:
    """Query everything; raise GdbGone if the debugger ends before it reports any device."""
    seen = DeviceSample(opened=opened, notes=queries.notes)
    try:
        await _all(queries, seen)
    except GdbGone:
        if not (seen.devices or seen.kernels):
            raise
        queries.notes.append("The debugger exited before it had reported everything.")
    return seen


async def _all(queries: Queries, seen: DeviceSample) -> None:
    seen.devices = await queries.rows("devices", DeviceRow)
    seen.kernels = await queries.rows("kernels", KernelRow)
    seen.contexts = [context.words for context in await queries.rows("contexts", ContextRow)]
    await queries.find_focus()
    seen.focus = queries.focus
    if seen.focus is not None:
        await _around_focus(queries, seen, seen.focus)
    for device in seen.devices:
        if device.active:
            sms = await queries.rows("sms", SmRow, f"device {device.number}")
            warps = await queries.rows("warps", WarpRow, f"device {device.number} sm all")
            seen.warps.extend(_on_their_sms(device.number, sms, warps))
    asked = [kernel.number for kernel in seen.kernels if kernel.sms][:_KERNELS]
    ranges = _ranges(seen.warps)
    for kernel in asked:
        seen.blocks.extend(await queries.rows("blocks", BlockRow, f"kernel {kernel}"))
        if ranges.get(kernel, 0) <= _RANGES:
            seen.threads.extend(await queries.rows("threads", ThreadRow, f"kernel {kernel}"))
        else:
            queries.notes.append(
                f"Threads of kernel {kernel} were not asked for: they are at too many places; its warps are shown."
            )
    await _exceptions(queries, seen)
    await _symbols(queries, seen)


async def _around_focus(queries: Queries, seen: DeviceSample, focus: Focus) -> None:
    """Query lanes, stack and barriers of the warp in focus: that of an exception if there is one."""
    place = (focus.device, focus.sm, focus.warp)
    seen.lanes[place] = await queries.rows("lanes", LaneRow, _words(place))
    record = await queries.answer(f"-stack-list-frames 0 {_FRAMES - 1}", "stack of the focus")
    if record is not None:
        seen.stack = tuple(_frames(record.payload.get("stack")))
    said = await queries.console("info cuda barriers")
    seen.barriers = _lines(said)
    said = await queries.console("info cuda managed")
    seen.managed = tuple(line for line in _lines(said) if " = " in line)


async def _exceptions(queries: Queries, seen: DeviceSample) -> None:
    """Query lanes of further warps at the address of a lane with an exception."""
    faulty = {lane.pc for lanes in seen.lanes.values() for lane in lanes if lane.exception}
    places = [(w.device, w.sm, w.number) for w in seen.warps if w.pc in faulty and w.sm >= 0]
    for place in [place for place in places if place not in seen.lanes][:_WARPS_ASKED]:
        seen.lanes[place] = await queries.rows("lanes", LaneRow, _words(place))
    if len(places) > _WARPS_ASKED + 1:
        queries.notes.append(f"{_WARPS_ASKED} of {len(places):,} warps were asked for exceptions of their lanes.")


async def _symbols(queries: Queries, seen: DeviceSample) -> None:
    """Query names of the places of most threads; also their lines if the threads did not report them."""
    numbers: defaultdict[int, int] = defaultdict(int)
    for warp in seen.warps:
        numbers[warp.pc] += 32
    for thread in seen.threads:
        numbers[thread.pc] += thread.threads
    known = {thread.pc: thread for thread in seen.threads if thread.line is not None}
    for place, pc in enumerate(sorted(numbers, key=lambda pc: (-numbers[pc], pc))[:_SYMBOLS]):
        found = _SYMBOL.match(await queries.console(f"info symbol {pc:#x}"))
        function = clean_line(found[1], 500) if found else ""
        instruction = instruction_of(await queries.console(f"x/i {pc:#x}")) if place < _INSTRUCTIONS else ""
        if pc in known:
            seen.symbols[pc] = Symbol(function, known[pc].file, known[pc].line, instruction)
            continue
        at = _LINE.match(await queries.console(f"info line *{pc:#x}"))
        if at is not None:
            seen.symbols[pc] = Symbol(function, clean_line(at[2], 1000), int(at[1]), instruction)
        elif function or instruction:
            distance = int(found[2] or 0) if found else 0
            name = f"{function}+{distance}" if distance else function
            seen.symbols[pc] = Symbol(name, instruction=instruction)
    if len(numbers) > _SYMBOLS:
        queries.notes.append(f"{_SYMBOLS} of {len(numbers):,} addresses were looked up by name.")


def _on_their_sms(device: int, sms: Sequence[SmRow], warps: Sequence[WarpRow]) -> Iterator[WarpRow]:
    """Add the SM of each warp. MI's table lacks it; its rows follow the masks of the SMs in order."""
    if any(warp.sm >= 0 for warp in warps):
        yield from warps
        return
    places = [(sm.number, bit) for sm in sms for bit in range(sm.warps.bit_length()) if sm.warps >> bit & 1]
    fits = [number for _, number in places] == [warp.number for warp in warps]
    for place, warp in enumerate(warps):
        yield warp._replace(device=device, sm=places[place][0] if fits else -1)


def _ranges(warps: Sequence[WarpRow]) -> dict[int, int]:
    """Estimate how many thread ranges a kernel's table will have."""
    found: defaultdict[int, int] = defaultdict(int)
    before: dict[int, int] = {}
    for warp in warps:
        if before.get(warp.kernel) != warp.pc:
            found[warp.kernel] += 2
        if warp.divergent:
            found[warp.kernel] += _APART
        before[warp.kernel] = warp.pc
    return found


def _words(place: tuple[int, int, int]) -> str:
    return "device {} sm {} warp {}".format(*place)


def _lines(said: str) -> tuple[str, ...]:
    return tuple(clean_line(line, 200).rstrip() for line in said.splitlines() if line.strip())[:_LINES]


def _frames(stack: Any) -> Iterator[Frame]:
    """Yield the device frames in an answer to `-stack-list-frames`."""
    for said in stack if isinstance(stack, list) else ():
        if not isinstance(said, dict) or said.get("arch", _DEVICE_FRAME) != _DEVICE_FRAME:
            continue
        line, address = str(said.get("line", "")), str(said.get("addr", ""))
        file = said.get("fullname") or said.get("file")
        yield Frame(
            function=clean_line(str(said.get("func", address or "??")), 500),
            file=clean_line(str(file), 1000) if file else None,
            line=int(line) if line.isdecimal() else None,
            address=int(address, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", address) else None,
        )
