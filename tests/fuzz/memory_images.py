"""Memory that is damaged, for readers that follow pointers in the memory of a process.

They read by process_vm_readv(2) (livedbg.linux.memory). Here that call is answered from an image, or from our own
memory with words changed on the way: by limits, by small numbers, and by addresses that were read before, so that lists
end in themselves.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import errno
import os
import random
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.layout import Layout, Place, wanted_fields
from livedbg.adapters.ascend.live.reader import SchedulerReader
from livedbg.cpython.call_frames import CallFrames
from livedbg.cpython.exception_message import ExceptionTypes, Kinds, message_of
from livedbg.cpython.for_loops import ForLoopReader
from livedbg.cpython.interpreter import Interpreter, find_interpreter
from livedbg.cpython.loop_source import around
from livedbg.cpython.objects import ObjectReader
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import memory

__all__ = ["read_python", "read_scheduler", "scheduler_image"]

_BASE: Final = 0x5000_0000
_LIMITS: Final = (0, 1, 7, 0x7F, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 47, (1 << 63) - 1, 1 << 63, (1 << 64) - 8)
_RATES: Final = (0.01, 0.05, 0.3)  # of the calls that are damaged

_Call = Callable[..., int]


@contextlib.contextmanager
def _answered_by(call: Callable[[_Call], _Call]) -> Iterator[None]:
    before = memory._readv
    memory._readv = call(before)  # type: ignore[assignment]
    try:
        yield
    finally:
        memory._readv = before


def _damaging(seed: bytes) -> Callable[[_Call], _Call]:
    """Our own memory, with words changed on the way."""
    chance = random.Random(seed)
    rate = chance.choice(_RATES)
    read_before: deque[int] = deque(maxlen=64)

    def wrap(real: _Call) -> _Call:
        def readv(pid: int, local: Any, count: int, remote: Any, *rest: int) -> int:
            got = real(pid, local, count, remote, *rest)
            read_before.extend(remote[number].base or 0 for number in range(min(rest[0], 8)))
            if got >= 8 and chance.random() < rate:
                words = (ctypes.c_char * got).from_address(local._obj.base)
                for _ in range(chance.choice((1, 1, 2, 5))):
                    at = chance.randrange(got // 8) * 8
                    kind = chance.randrange(4)
                    if kind == 0:
                        value = chance.choice(_LIMITS)
                    elif kind == 1:
                        value = chance.choice(read_before)
                    elif kind == 2:
                        value = chance.randrange(4096)
                    else:
                        value = int.from_bytes(words[at : at + 8], "little") ^ 1 << chance.randrange(64)
                    words[at : at + 8] = struct.pack("<Q", value & (1 << 64) - 1)
            return got

        return readv

    return wrap


def _from_image(data: bytes) -> Callable[[_Call], _Call]:
    """An image that lies at `_BASE`, and nothing else."""

    def readv(_pid: int, local: Any, _count: int, remote: Any, *rest: int) -> int:
        got = 0
        for number in range(rest[0]):
            at, size = (remote[number].base or 0) - _BASE, remote[number].length
            if at < 0 or at + size > len(data):
                break
            ctypes.memmove(local._obj.base + got, data[at : at + size], size)
            got += size
        if not got and rest[0] and remote[0].length:
            ctypes.set_errno(errno.EFAULT)
            return -1
        return got

    return lambda _real: readv


# CPython


class _OwnError(ValueError):
    """A class with a base and attributes of its own."""


@lru_cache(maxsize=1)
def _interpreter(pid: int) -> Interpreter:
    found = find_interpreter(pid)
    assert found is not None and found.layout is not None
    return found


_LOOPS = "def f(seed):\n while seed < 9:\n  for x in seed:\n" + "   x\n" * 300 + "  seed += 1\n"
_SOURCE: Final = around(ast.parse(_LOOPS), 4).loops


def read_python(seed: bytes) -> None:
    """All that is read of an interpreter: ours."""
    pid = os.getpid()
    interpreter = _interpreter(pid)
    error = _OwnError("a text", 7)
    text = "a text " * 20
    with _answered_by(_damaging(seed)):
        reader = ThreadReader(pid, interpreter)
        objects, states = reader.objects, {}
        with contextlib.suppress(OSError):
            reader.gils()
        with contextlib.suppress(OSError):
            states = reader.states()
        with contextlib.suppress(OSError):
            for thread in reader.threads()[:50]:
                for frame in thread.frames[:50]:
                    assert frame.where and len(frame.live) <= len(frame.slots)
                    for slot in frame.slots[:10]:
                        objects.lock_at(slot)
                        objects.lock_of_condition(slot)
                        objects.text(slot)
        calls = CallFrames(ObjectReader(pid, reader.layout))
        for state in list(states.values())[:50]:
            calls.now(state)
            with contextlib.suppress(OSError):
                assert all(loop.code.name for loop in ForLoopReader(reader).loops(state))
            with contextlib.suppress(OSError, OverflowError):
                nests = ForLoopReader(reader).ending(state, lambda _file, _line: _SOURCE)
                assert all(loop.code.name for loops in nests.values() for loop in loops)
        number = int.from_bytes(seed[:8], "little")
        calls.of({"state": next(iter(states.values()), 0), "code0": number, "at0": 8, "behind": id(reader)})
        ExceptionTypes(objects).names(id(_OwnError), "_OwnError")
        kinds = Kinds(objects, {})
        with contextlib.suppress(OSError):
            head = memory.read(pid, id(error), 64)
            argument = memory.read(pid, id(text), 48)
            kinds.text_now(id(text))
            for names in (["ValueError"], ["OSError"]):
                message_of({"self": head, "item": argument, "value": id(error)}, names, kinds)
                message_of({"count": 2, "first": argument, "first_at": id(text), "second_at": number}, names, kinds)


# the scheduler of Ascend's simulator

_SIZES: Final = {"executor": 1024, "scheduler": 512, "slot": 128}
_ARRAYS: Final = {"cores": 4, "trackers": 2, "beats": 2, "dispatched": 8, "rings": 2, "queues": 2, "entries": 4}
_STRUCTURES: Final = {"cores", "trackers", "beats", "dispatched", "rings", "queues", "waits", "entries", "conditions"}
_POINTERS: Final = {
    "scheduler", "header", "ring", "slots", "done_flags", "task", "payload", "waiters", "slot", "next", "running",
    "pending", "function", "address", "counter",
}  # fmt: skip
_SIZE_OF_ONE: Final = {"entries": 96, "waits": 512, "conditions": 32}
_STATES: Final = {0: "PTO2_TASK_PENDING", 1: "PTO2_TASK_RUNNING", 2: "PTO2_TASK_COMPLETED", 3: "PTO2_TASK_CONSUMED"}


def _layout() -> Layout:
    """Every field that is read, one behind the other in its structure."""
    ends: dict[str, int] = {}
    places: dict[str, Place] = {}
    for full, want in wanted_fields().items():
        holder, _, name = full.partition(".")
        offset = ends.get(holder, 0)
        if full == "task.id" or name == "id":
            place = Place(offset, 8)
        elif name in _STRUCTURES:
            size = _SIZE_OF_ONE.get(name, 64)
            length = _ARRAYS.get(name, 2 if name == "conditions" else 1)
            place = Place(offset, size, length=length, target=want.leads_to, target_size=size)
        elif name in _POINTERS and full not in {"entry.task", "dispatched.task"}:
            place = Place(offset, 8, target=want.leads_to, target_size=_SIZES.get(want.leads_to, 64))
        elif full in ("tracker.cores", "task.kernels"):
            place = Place(offset, 4, True, length=3)
        elif name == "fanin" and holder == "payload":
            place = Place(offset, 4, True, target_size=4, relative=True)
        else:
            place = Place(offset, 4, name in ("met", "fanin"), values=_STATES if name == "state" else {})
        places[full] = place
        ends[holder] = offset + place.size * place.length
    places["ring.slots"] = places["ring.slots"]._replace(target_size=128)
    return Layout(0, places)


_LAYOUT: Final = _layout()


def scheduler_image() -> Sequence[bytes]:
    """The memory of a scheduler with eight tasks, each of which waits for the one before it."""
    image = bytearray(0x3000)
    scheduler, ring, slots, tasks, payloads, waiters, header = 0x400, 0xC00, 0x1000, 0x1800, 0x1C00, 0x2000, 0x2800

    def put(at: int, name: str, value: int, index: int = 0) -> None:
        place = _LAYOUT[name]
        start = at + place.offset + index * place.size
        image[start : start + place.size] = value.to_bytes(place.size, "little", signed=place.signed)

    for name, value in (("scheduler", _BASE + scheduler), ("core_count", 2), ("threads", 1), ("total", 8)):
        put(0, f"executor.{name}", value)
    put(scheduler, "scheduler.header", _BASE + header)
    rings = scheduler + _LAYOUT["scheduler.rings"].offset
    put(rings, "rings.ring", _BASE + ring)
    for name, value in (("head", 8), ("tail", 0), ("mask", 7), ("slots", _BASE + slots)):
        put(ring, f"ring.{name}", value)
    for number in range(8):
        slot, task = slots + 128 * number, tasks + 64 * number
        payload, waiter = payloads + 64 * number, waiters + 64 * number
        for name, value in (
            ("state", min(number, 1)), ("task", _BASE + task), ("payload", _BASE + payload), ("met", 1), ("fanin", 2),
            ("required", 1), ("blocks", 1), ("waiters", _BASE + waiter if number < 7 else 0),
        ):  # fmt: skip
            put(slot, f"slot.{name}", value)
        put(task, "task.id", number)
        put(task, "task.kernels", 3)
        put(payload, "payload.fanin_actual", 1 if number else 0)
        put(payload, "payload.fanin", 16)
        producer = payload + _LAYOUT["payload.fanin"].offset + 16
        image[producer : producer + 4] = max(0, number - 1).to_bytes(4, "little")
        put(waiter, "waiter.slot", _BASE + slot + 128)
    cores = _LAYOUT["executor.cores"].offset
    put(cores, "core.running", _BASE + slots + 128)
    trackers = _LAYOUT["executor.trackers"].offset
    put(trackers, "tracker.clusters", 1)
    waits = scheduler + _LAYOUT["scheduler.waits"].offset
    put(waits, "waits.count", 1)
    return [bytes(image)]


def read_scheduler(data: bytes) -> None:
    """Three samples of an image, of which the second is damaged otherwise, and the cores behind it."""
    chance = random.Random(data)
    other = bytearray(data or b"\0")
    for _ in range(8):
        other[chance.randrange(len(other))] = chance.randrange(256)
    reader = SchedulerReader(os.getpid(), _BASE, _LAYOUT)
    for image in (data, bytes(other), data):
        with _answered_by(_from_image(image)):
            sample = reader.sample()
            assert sample is None or all(task is not None for task in sample.tasks.values())
    with _answered_by(_from_image(data)), contextlib.suppress(OSError):
        reader.unreturned({1: CoreThread(0, _BASE + 0x100)})
