"""From rows to a state: who stands where, coalesced; exceptions first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from livedbg.adapters.cuda.debugger.faults import announced, fault_named, title_of
from livedbg.adapters.cuda.debugger.instructions import meaning_of
from livedbg.adapters.cuda.debugger.look import Seen, Symbol
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.text.sanitize import clean_line

__all__ = ["state_of"]

_PLACES: Final = 500
_NO_SYMBOL: Final = Symbol()

_Key = tuple[int, str | None, int | None, str, int]


@dataclass(slots=True)
class _Stand:
    """What stands at one place."""

    address: int
    function: str
    warps: int = 0
    divergent: int = 0
    threads: int = 0
    instruction: str = ""
    example: str = ""


def state_of(
    seen: Seen, target: str, source: str, *, path: str = "", taken_wall_ns: int | None = None, look_ns: int = 0
) -> DeviceState:
    """The state that was seen."""
    places = _places(seen)
    of_process, pid = target.startswith("process:"), target.rpartition("/")[2]
    notes = list(dict.fromkeys(clean_line(note) for note in seen.notes))
    if len(places) > _PLACES:
        notes.append(f"{_PLACES} of {len(places):,} places are kept, those with most warps.")
    return DeviceState(
        target=clean_line(target),
        source=source,
        path=clean_line(path),
        taken_wall_ns=taken_wall_ns,
        units=tuple(
            DeviceUnit(
                number=row.number,
                name=row.name,
                machine=row.machine,
                bus=row.bus,
                sms=row.sms,
                busy_sms=row.active.bit_count(),
                warps_per_sm=row.warps_per_sm,
            )
            for row in seen.devices
        ),
        kernels=tuple(_kernels(seen)),
        places=tuple(places[:_PLACES]),
        faults=tuple(_faults(seen)),
        focus=seen.focus.words if seen.focus is not None else "",
        stack=seen.stack,
        barriers=seen.barriers,
        contexts=tuple(seen.contexts),
        managed=seen.managed,
        notes=tuple(notes),
        look_ns=look_ns,
        tool="cuda-gdb",
        reopen=f"livedbg device {clean_line(path)}" if path else "",
        repeat=f"livedbg device {pid} --dump --again 15" if of_process else "",
    )


def _kernels(seen: Seen) -> Iterator[DeviceKernel]:
    warps = Counter(warp.kernel for warp in seen.warps)
    blocks: Counter[int] = Counter()
    threads: Counter[int] = Counter()
    for block in seen.blocks:
        blocks[block.kernel] += block.blocks
    for thread in seen.threads:
        threads[thread.kernel] += thread.threads
    for row in seen.kernels:
        name, paren, arguments = _parted(row.invocation)
        yield DeviceKernel(
            number=row.number,
            device=row.device,
            grid=row.grid,
            parent=row.parent,
            name=name,
            arguments=f"{paren}{arguments}",
            status=row.status,
            grid_dim=row.grid_dim,
            block_dim=row.block_dim,
            sms=row.sms.bit_count(),
            blocks=blocks[row.number],
            warps=warps[row.number],
            threads=threads[row.number],
        )


def _parted(invocation: str) -> tuple[str, str, str]:
    """Function and arguments of `spin(n=3)`: the last parenthesis that closes at the end opens the arguments."""
    depth = 0
    if invocation.endswith(")"):
        for place in range(len(invocation) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(invocation[place], 0)
            if depth == 0:
                return invocation[:place].rstrip(), "(", invocation[place + 1 :]
    return invocation, "", ""


def _places(seen: Seen) -> list[DevicePlace]:
    """Where warps and threads stand, most warps first. A place is a line; an address where there is none."""
    stands: dict[_Key, _Stand] = {}
    lines = {thread.pc: (thread.file, thread.line) for thread in seen.threads if thread.line is not None}

    def at(kernel: int, pc: int) -> _Stand:
        symbol = seen.symbols.get(pc, _NO_SYMBOL)
        file, line = lines.get(pc, (symbol.file, symbol.line))
        key: _Key = (kernel, file, line, "", 0) if line is not None else (kernel, None, None, symbol.function, pc)
        found = stands.setdefault(key, _Stand(pc, symbol.function))
        if pc <= found.address:
            found.address, found.instruction = pc, symbol.instruction
        found.function = found.function or symbol.function
        return found

    for warp in seen.warps:
        stand = at(warp.kernel, warp.pc)
        stand.warps += 1
        stand.divergent += 1 if warp.divergent else 0
        stand.example = stand.example or f"block {warp.block} thread {warp.thread}"
        if not seen.threads:
            stand.threads += warp.active.bit_count()
    for thread in seen.threads:
        stand = at(thread.kernel, thread.pc)
        stand.threads += thread.threads
        stand.example = stand.example or f"block {thread.block} thread {thread.thread}"
    found = [
        DevicePlace(
            kernel=key[0],
            function=stand.function,
            file=key[1],
            line=key[2],
            address=stand.address,
            warps=stand.warps,
            divergent=stand.divergent,
            threads=stand.threads,
            instruction=stand.instruction,
            meaning=meaning_of(stand.instruction),
            example=stand.example,
        )
        for key, stand in stands.items()
    ]
    return sorted(found, key=lambda place: (-place.warps, -place.threads, place.kernel, place.address or 0))


def _faults(seen: Seen) -> Iterator[DeviceFault]:
    """Exceptions: the one that the debugger announces, with its instruction, then what lanes have besides."""
    kernels = {(w.device, w.sm, w.number): w for w in seen.warps}
    warps: defaultdict[str, int] = defaultdict(int)
    lanes: defaultdict[str, int] = defaultdict(int)
    first: dict[str, tuple[tuple[int, int, int], str, int]] = {}
    for place, rows in seen.lanes.items():
        for name in dict.fromkeys(row.exception for row in rows if row.exception):
            mine = [row for row in rows if row.exception == name]
            warps[name] += 1
            lanes[name] += len(mine)
            first.setdefault(name, (place, mine[0].thread, mine[0].pc))
    said = announced(seen.opened)
    if said is not None:
        meant, at, focus = fault_named(said.name), said, seen.focus
        yield DeviceFault(
            name=said.name,
            title=title_of(said.name, meant),
            code=meant.code,
            meaning=meant.meaning,
            remedy=meant.remedy,
            kernel=focus.kernel if focus is not None else None,
            function=at.function or (seen.stack[0].function if seen.stack else ""),
            file=at.file,
            line=at.line,
            address=at.address,
            example=focus.words if focus is not None else "",
            warps=warps.get(said.name, 0),
            lanes=lanes.get(said.name, 0),
        )
    for name, (place, thread, pc) in first.items():
        if said is not None and name == said.name:
            continue
        meant, warp = fault_named(name), kernels.get(place)
        symbol = seen.symbols.get(pc, _NO_SYMBOL)
        block = f"block {warp.block} " if warp is not None else ""
        yield DeviceFault(
            name=name,
            title=title_of(name, meant),
            code=meant.code,
            meaning=meant.meaning,
            remedy=meant.remedy,
            kernel=warp.kernel if warp is not None else None,
            function=symbol.function,
            file=symbol.file,
            line=symbol.line,
            example=f"{block}thread {thread} on device {place[0]} SM {place[1]} warp {place[2]}",
            warps=warps[name],
            lanes=lanes[name],
        )
