"""Convert a sample to a device state: positions of warps and threads, exceptions first; and compare two states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.cuda.cudagdb.sample import DeviceSample, Symbol, meaning_of
from livedbg.adapters.cuda.device_lines import announced_exception, fault_named, title_of
from livedbg.analysis.devices import places_of
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

_PLACES: Final = 500
_NO_SYMBOL: Final = Symbol()

_Key = tuple[int, str | None, int | None, str, int]


@dataclass(slots=True)
class _Position:
    """The warps and threads at one place."""

    address: int
    function: str
    warps: int = 0
    divergent: int = 0
    threads: int = 0
    instruction: str = ""
    example: str = ""


def state_of(
    seen: DeviceSample,
    target: str,
    source: str,
    *,
    path: str = "",
    taken_wall_ns: int | None = None,
    sampling_ns: int = 0,
) -> DeviceState:
    """Return the state of a sample."""
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
        sampling_ns=sampling_ns,
        tool="cuda-gdb",
        reopen=f"livedbg device {shell_word(path)}" if path else "",
        repeat=f"livedbg device {pid} --dump --again 15" if of_process else "",
    )


def _kernels(seen: DeviceSample) -> Iterator[DeviceKernel]:
    warps = Counter(warp.kernel for warp in seen.warps)
    blocks: Counter[int] = Counter()
    threads: Counter[int] = Counter()
    for block in seen.blocks:
        blocks[block.kernel] += block.blocks
    for thread in seen.threads:
        threads[thread.kernel] += thread.threads
    for row in seen.kernels:
        name, paren, arguments = _split_call(row.invocation)
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


def _split_call(invocation: str) -> tuple[str, str, str]:
    """Split `spin(n=3)` into function and arguments, at the parenthesis that matches the last one."""
    depth = 0
    if invocation.endswith(")"):
        for place in range(len(invocation) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(invocation[place], 0)
            if depth == 0:
                return invocation[:place].rstrip(), "(", invocation[place + 1 :]
    return invocation, "", ""


def _places(seen: DeviceSample) -> list[DevicePlace]:
    """Return the places of warps and threads, most warps first. A place is a line, or an address without one."""
    positions: dict[_Key, _Position] = {}
    lines = {thread.pc: (thread.file, thread.line) for thread in seen.threads if thread.line is not None}

    def at(kernel: int, pc: int) -> _Position:
        symbol = seen.symbols.get(pc, _NO_SYMBOL)
        file, line = lines.get(pc, (symbol.file, symbol.line))
        key: _Key = (kernel, file, line, "", 0) if line is not None else (kernel, None, None, symbol.function, pc)
        found = positions.setdefault(key, _Position(pc, symbol.function))
        if pc <= found.address:
            found.address, found.instruction = pc, symbol.instruction
        found.function = found.function or symbol.function
        return found

    for warp in seen.warps:
        position = at(warp.kernel, warp.pc)
        position.warps += 1
        position.divergent += 1 if warp.divergent else 0
        position.example = position.example or f"block {warp.block} thread {warp.thread}"
        if not seen.threads:
            position.threads += warp.active.bit_count()
    for thread in seen.threads:
        position = at(thread.kernel, thread.pc)
        position.threads += thread.threads
        position.example = position.example or f"block {thread.block} thread {thread.thread}"
    found = [
        DevicePlace(
            kernel=key[0],
            function=position.function,
            file=key[1],
            line=key[2],
            address=position.address,
            warps=position.warps,
            divergent=position.divergent,
            threads=position.threads,
            instruction=position.instruction,
            meaning=meaning_of(position.instruction),
            example=position.example,
        )
        for key, position in positions.items()
    ]
    return sorted(found, key=lambda place: (-place.warps, -place.threads, place.kernel, place.address or 0))


def _faults(seen: DeviceSample) -> Iterator[DeviceFault]:
    """Yield the exception that the debugger announces, with its instruction, then other exceptions of lanes."""
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
    said = announced_exception(seen.opened)
    if said is not None:
        focus = seen.focus
        yield replace(
            _fault(said.name),
            kernel=focus.kernel if focus is not None else None,
            function=said.function or (seen.stack[0].function if seen.stack else ""),
            file=said.file,
            line=said.line,
            address=said.address,
            example=focus.words if focus is not None else "",
            warps=warps.get(said.name, 0),
            lanes=lanes.get(said.name, 0),
        )
    for name, (place, thread, pc) in first.items():
        if said is not None and name == said.name:
            continue
        warp, symbol = kernels.get(place), seen.symbols.get(pc, _NO_SYMBOL)
        block = f"block {warp.block} " if warp is not None else ""
        yield replace(
            _fault(name),
            kernel=warp.kernel if warp is not None else None,
            function=symbol.function,
            file=symbol.file,
            line=symbol.line,
            example=f"{block}thread {thread} on device {place[0]} SM {place[1]} warp {place[2]}",
            warps=warps[name],
            lanes=lanes[name],
        )


def _fault(name: str) -> DeviceFault:
    meant = fault_named(name)
    title = title_of(name, meant)
    return DeviceFault(name=name, title=title, code=meant.code, meaning=meant.meaning, remedy=meant.remedy)


def compare_states(before: DeviceState | None, now: DeviceState) -> DeviceState:
    """Return the newer state, in which each kernel without progress has the time since when.

    A kernel makes no progress if the same grid has as many warps, most of them at the same place, in both samples.
    """
    if before is None or before.target != now.target or before.taken_wall_ns == now.taken_wall_ns:
        return now
    known = {(kernel.device, kernel.grid, kernel.name): kernel for kernel in before.kernels}
    kernels = tuple(
        replace(kernel, still_since_wall_ns=_since(before, then, now, kernel))
        if (then := known.get((kernel.device, kernel.grid, kernel.name))) is not None
        else kernel
        for kernel in now.kernels
    )
    return replace(now, kernels=kernels)


def _since(before: DeviceState, then: DeviceKernel, now: DeviceState, kernel: DeviceKernel) -> int | None:
    was, now_at = _main_place(before, then), _main_place(now, kernel)
    if was is None or was != now_at or then.warps != kernel.warps:
        return None
    return then.still_since_wall_ns or before.taken_wall_ns


def _main_place(state: DeviceState, kernel: DeviceKernel) -> tuple[object, ...] | None:
    """Return the place of most warps of a kernel: its line, else its function, else its address."""
    first = next(iter(places_of(state, kernel.number)), None)
    if first is None or not kernel.warps or 2 * first.warps <= kernel.warps:
        return None
    if first.line is not None:
        return (first.file, first.line)
    return (first.function.rpartition("+")[0] or first.function or first.address,)
