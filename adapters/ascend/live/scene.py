"""The scheduler's state beside its tasks: rings, ready queues, turns of the scheduler's loop, error codes."""

from __future__ import annotations

import platform
import time
from typing import Final

from livedbg.adapters.ascend.live.image import Block, Image
from livedbg.adapters.ascend.live.layout import Layout, Place
from livedbg.adapters.ascend.live.rings import Ring
from livedbg.adapters.ascend.live.state import NO_ERRORS, Errors

__all__ = ["began_mono_ns", "read_began", "read_errors", "read_queued", "read_rings", "read_turns"]

_MOST: Final = 8  # threads, or queues
_HZ: Final = (50_000_000, 1_000_000_000)
"""PLATFORM_PROF_SYS_CNT_FREQ of simpler src/{a2a3,a5}/platform/include/common/platform_config.h."""


def read_rings(layout: Layout, image: Image, scheduler: int) -> tuple[list[Ring], list[Block]]:
    """The rings, and the bytes that say so."""
    states, pointer = layout["scheduler.rings"], layout["rings.ring"]
    first = scheduler + states.offset
    holders = image.read([(first + n * states.target_size, states.target_size) for n in range(states.length)])
    addresses = [0 if data is None else pointer.of(data) for data in holders]
    head, tail, mask, slots = (layout.get(f"ring.{name}") for name in ("head", "tail", "mask", "slots"))
    flags = layout.get("ring.done_flags")
    assert head is not None and mask is not None and slots is not None
    rings, headers = [], []
    for number, block in enumerate(
        image.take([(address, max(1, pointer.target_size)) for address in addresses if address])
    ):
        if block is None:
            continue
        headers.append(block)
        data = block.data
        rings.append(
            Ring(
                number,
                0 if tail is None else tail.of(data),
                head.of(data),
                mask.of(data),
                slots.of(data),
                slots.target_size,
                0 if flags is None else flags.of(data),
            )
        )
    return rings, headers


def read_turns(layout: Layout, image: Image, executor: int) -> tuple[int, ...]:
    """How often each scheduler thread has turned its loop; () where that is not counted."""
    beats, turns = layout.get("executor.beats"), layout.get("beat.turns")
    if beats is None or turns is None:
        return ()
    return tuple(_numbers(image, executor + beats.offset, beats, turns))


def read_began(layout: Layout, image: Image, executor: int) -> int | None:
    """When the scheduler's threads began the run (CLOCK_MONOTONIC, ns); None where that can't be told.

    On x86 the simulator's counter is the steady clock in units of the chip's counter (sys_cnt_now_ticks, simpler
    src/common/platform/include/aicpu/device_time.h); on other machines it is a clock with another beginning.
    """
    beats, began = layout.get("executor.beats"), layout.get("beat.began")
    if beats is None or began is None or platform.machine() != "x86_64":
        return None
    ticks = max((count for count in _numbers(image, executor + beats.offset, beats, began) if count), default=0)
    return began_mono_ns(ticks, time.monotonic_ns())


def began_mono_ns(ticks: int, now_ns: int) -> int | None:
    """The moment at which the chip's counter had a value: by the slower counter that puts it into the past."""
    found = [ticks * (1_000_000_000 // hz) for hz in _HZ]
    return next((at for at in found if 0 < at <= now_ns), None)


def read_queued(layout: Layout, image: Image, scheduler: int) -> int | None:
    """How many tasks lie in the ready queues."""
    queues, put, taken = (layout.get(n) for n in ("scheduler.queues", "queue.enqueued", "queue.dequeued"))
    if queues is None or put is None or taken is None:
        return None
    dequeued = sum(_numbers(image, scheduler + queues.offset, queues, taken))
    return max(0, sum(_numbers(image, scheduler + queues.offset, queues, put)) - dequeued)


def read_errors(layout: Layout, image: Image, scheduler: int) -> Errors:
    """The error codes that the runtime has latched."""
    header = layout.get("scheduler.header")
    if header is None:
        return NO_ERRORS
    data = image.read([(scheduler + header.offset, header.size)])[0]
    where = 0 if data is None else header.of(data, -header.offset)
    codes = []
    for name in ("orchestrator_error", "scheduler_error"):
        place = layout.get(f"header.{name}")
        said = image.read([(where + place.offset, place.size)])[0] if where and place is not None else None
        codes.append(0 if said is None or place is None else place.of(said, -place.offset))
    return Errors(*codes)


def _numbers(image: Image, address: int, array: Place, inner: Place) -> list[int]:
    """One number of each structure of an array."""
    places = [(address + n * array.target_size + inner.offset, inner.size) for n in range(min(array.length, _MOST))]
    return [0 if data is None else inner.of(data, -inner.offset) for data in image.read(places)]
