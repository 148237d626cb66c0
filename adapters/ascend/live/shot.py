"""One reading of a scheduler's memory: its parts before they are checked, and who holds which task in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.live.image import Block, Image
from livedbg.adapters.ascend.live.rings import Ring, Segment
from livedbg.adapters.ascend.live.slots import Fixed, Slot
from livedbg.adapters.ascend.live.state import NO_ERRORS, Condition, Errors, LiveCore

__all__ = ["CHUNK", "Holders", "Shot", "chunks", "holders_of"]

CHUNK: Final = 64  # slots that are compared at once


class Shot(Struct):
    """The memory read for one sample, before it is known which parts of it did not change meanwhile."""

    image: Image
    numbers: dict[str, int]
    rings: list[Ring]
    headers: list[Block]
    chunks: dict[tuple[int, int], tuple[Block, int, bytes]] = field(default_factory=dict)
    slots: dict[int, tuple[Slot, Block, int]] = field(default_factory=dict)
    fixed: dict[int, Fixed] = field(default_factory=dict)
    waiters: dict[int, tuple[int, ...]] = field(default_factory=dict)
    flags: dict[int, Block] = field(default_factory=dict)
    waits: dict[int, tuple[Block, tuple[Condition, ...]]] = field(default_factory=dict)
    cores: Block | None = None
    threads: dict[int, tuple[int, str]] = field(default_factory=dict)
    queued: int | None = None
    turns: tuple[int, ...] = ()
    began_mono_ns: int | None = None
    errors: Errors = NO_ERRORS


class Holders(NamedTuple):
    """Which cores and waits hold tasks.

    Attributes:
        running: by task, the cores that execute it.
        queued: by task, the core that it is queued on.
        waits: by task, what it waits for after its kernel has returned.
        unsteady: cores that changed while they were read.
    """

    cores: dict[int, LiveCore]
    running: dict[int, tuple[tuple[int, str], ...]]
    queued: dict[int, int]
    waits: dict[int, tuple[Condition, ...]]
    unsteady: set[int]


def chunks(part: Segment) -> Iterator[tuple[int, int]]:
    """Its slots in pieces whose borders stay where they are as the ring turns."""
    low = 0
    while low < part.length:
        high = min(part.length, low + CHUNK - (part.first + low) % CHUNK)
        yield low, high
        low = high


def holders_of(cores: dict[int, LiveCore], unsteady: set[int], waits: dict[int, tuple[Condition, ...]]) -> Holders:
    """The holders of each task, by the cores and the asynchronous waits of one sample."""
    running: dict[int, tuple[tuple[int, str], ...]] = {}
    queued: dict[int, int] = {}
    for core in cores.values():
        if core.running is not None:
            running[core.running] = (*running.get(core.running, ()), (core.number, core.subslot))
        if core.pending is not None:
            queued[core.pending] = core.number
    return Holders(cores, running, queued, waits, unsteady)
