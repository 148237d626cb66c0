"""What counts as a semaphore, an operation or a command, and what only looks like one: memory that is made up."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

from livedbg.adapters.iree.live import image as images
from livedbg.adapters.iree.live.image import Image, Runtime
from livedbg.adapters.iree.live.libraries import Dispatch, Library
from livedbg.adapters.iree.live.operations import Point, Semaphore, Waiter, find_operations, find_semaphores
from livedbg.adapters.iree.live.recordings import read_recordings
from livedbg.linux.maps import parse_maps

BASE, TABLE, CODE = 0x7000_0000_0000, 0x5000_0000_0000, 0x5000_0001_0000
RUNTIME = Runtime("/lib/runtime.so", TABLE, CODE + 0x1000, ((CODE, CODE + 0x1000),), "3.13.0")


class World:
    """Memory that is made up: words by address."""

    def __init__(self, size: int = 8192) -> None:
        self.bytes = bytearray(size)

    def put(self, at: int, form: str, *values: int) -> int:
        struct.pack_into(form, self.bytes, at, *values)
        return BASE + at

    def name(self, at: int, text: bytes) -> int:
        self.bytes[at : at + 16] = text.ljust(16, b"\0")
        return BASE + at

    def image(self) -> Image:
        made = Image(os.getpid(), ())
        tables = np.array([CODE, CODE + 16, CODE + 32, 0], np.uint64)
        made.pieces = [(TABLE, tables), (BASE, np.frombuffer(bytes(self.bytes), np.uint64))]
        return made

    def semaphore(self, at: int, value: int, head: int = 0, table: int = TABLE) -> int:
        here = BASE + at
        self.put(at, "<Q4Q", 1, table, 0, 0, 0)
        return self.put(at + 40, "<6Q", value, value, 0, 0, head, here + 104) - 40

    def waiter(self, at: int, semaphore: int, minimum: int, before: int = 0, after: int = 0) -> int:
        return self.put(at, "<6Q", after, before, semaphore, minimum, CODE + 64, 0)


@pytest.mark.invariant("iree_operations.M1")
def test_M1_a_wait_is_told_only_if_its_node_points_back() -> None:
    world = World()
    good = world.semaphore(0, 3, BASE + 512)
    world.waiter(512, good, 7, after=BASE + 640)
    world.waiter(640, good, 9, before=BASE + 512, after=BASE + 768)
    world.waiter(768, BASE + 4096, 11, before=BASE + 640)  # of another semaphore
    foreign = world.semaphore(1024, 0, BASE + 1536)
    world.waiter(1536, good, 1)  # does not point back: what was freed
    world.semaphore(2048, 0, table=TABLE + 8)  # its table does not begin with three functions
    found = find_semaphores(world.image(), RUNTIME)
    assert list(found) == [good] and foreign not in found
    assert [(one.minimum, one.address - BASE) for one in found[good].waiters] == [(7, 512), (9, 640)]


def _operation(world: World, at: int, signal: tuple[int, int], *, kind: int = 0, left: int = 0) -> int:
    """An operation of the local drivers at some place, which signals one value."""
    world.put(at, "<Qi", 0, kind)
    world.put(at + 72, "<Q", world.name(at + 320, b"local-task"))  # its scope
    array = world.put(at + 256, "<2Q", *signal)
    world.put(at + 80, "<3Q", 1, array, array + 8)
    world.put(at + 136, "<i4xQ8xQ", left, BASE + 2, BASE + 3)
    return BASE + at


@pytest.mark.invariant("iree_operations.P1")
def test_P1_an_operation_of_which_nobody_knows_is_left_out() -> None:
    world = World()
    wanted, forgotten = BASE + 6000, BASE + 6200
    live = _operation(world, 1024, (wanted, 2))
    _operation(world, 2048, (forgotten, 2))
    blocked = _operation(world, 3072, (forgotten, 5), kind=4, left=1)
    world.put(7000, "<2Q", blocked, wanted)  # behind the node of its wait
    semaphores = {
        wanted: Semaphore(wanted, 1, False, (Waiter(BASE + 7000 - 48, 2),)),
        forgotten: Semaphore(forgotten, 0, False),
    }
    found = find_operations(world.image(), semaphores, vulkan=False)
    assert set(found) == {live, blocked}
    assert not found[live].blocked and found[live].kind == "execute" and found[live].command_buffer == BASE + 3
    assert found[blocked].waits == (Point(wanted, 2),) and found[blocked].kind == "dealloca"


def test_what_has_signalled_is_done() -> None:
    world = World()
    semaphore = BASE + 6000
    _operation(world, 1024, (semaphore, 2))
    reached = {semaphore: Semaphore(semaphore, 2, False, (Waiter(BASE, 3),))}
    assert find_operations(world.image(), reached, vulkan=False) == {}


def _dispatch(function: int, ordinal: int, index: int, slot: int = 0) -> bytes:
    """A command of 8 workgroups: 4 by 2 by 1."""
    head = struct.pack("<4BBBHQQHHI", 0, 0, 10, slot, 0, 1, 0, BASE, function, ordinal, 0, index)
    return (head + struct.pack("<8I", 0, 0, 0, 4, 2, 1, 8, 1)).ljust(80, b"\0")


BARRIER = bytes((4, 0, 1, 0, 1, 0, 1, 0))
END = bytes((6, 0, 0, 0))


def _buffer(world: World, *commands: bytes) -> int:
    """A command buffer whose recording has one block with these commands."""
    data = b"".join(commands) + END
    world.put(2048, "<Q8H", 0, len(data), 2, 1, 2, 2, 2, 4096, 0)
    world.bytes[2048 + 24 : 2048 + 24 + len(data)] = data
    return world.put(1024 + 64, "<QQ3H", BASE, BASE + 2048, 1, 1, 2) - 64


LIBRARY = Library(CODE, CODE + 4096, "m", 6, (Dispatch(CODE + 16, 0, "first"), Dispatch(CODE + 32, 1, "second")))


@pytest.mark.invariant("iree_recordings.G1")
def test_G1_a_command_whose_function_is_not_the_dispatch_of_its_number_is_none() -> None:
    world = World()
    good = _buffer(world, BARRIER, _dispatch(CODE + 16, 0, 0), BARRIER, _dispatch(CODE + 32, 1, 2))
    [recording] = read_recordings(world.image(), [good], [LIBRARY]).values()
    assert [(one.dispatch.name, one.region, one.index, one.tiles) for one in recording.commands if one.dispatch] == [
        ("first", 0, 0, 8), ("second", 1, 2, 8),
    ]  # fmt: skip
    assert recording.progress is None
    other = World()
    wrong = _buffer(other, BARRIER, _dispatch(CODE + 16, 1, 0), BARRIER, _dispatch(CODE + 32, 1, 2))
    assert read_recordings(other.image(), [wrong], [LIBRARY]) == {}


def test_the_counters_of_the_workers_say_how_far_it_is() -> None:
    world = World()
    buffer = _buffer(world, BARRIER, _dispatch(CODE + 16, 0, 0), BARRIER, _dispatch(CODE + 32, 1, 2))
    recording, state = buffer + 64, BASE + 4096
    world.put(3072, "<4QQQHHI", recording, 0, 0, state, 192, 192, 1, 1, 3)  # at a cache line
    world.put(3072 + 192, "<3Q", 0, BASE + 2048, state)
    world.put(4096, "<Q", 7 << 32 | 1)
    world.put(4096 + 64, "<Q", 7 << 32 | 5)
    world.put(4096 + 128, "<Q", 7 << 32 | 6)
    [found] = read_recordings(world.image(), [buffer], [LIBRARY]).values()
    assert found.progress is not None
    assert (found.progress.region, found.progress.left, found.progress.taken) == (1, 5, (6,))
    assert found.progress.workers == 3 and not found.progress.done


@pytest.mark.invariant("iree_image.I1")
def test_I1_no_more_memory_is_copied_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST", 1 << 20)
    copy = Image(os.getpid(), parse_maps(os.getpid()))
    assert copy.cut and copy.size <= 1 << 20


def test_an_operation_of_a_local_device_is_none_of_vulkan_where_both_are_loaded() -> None:
    world = World()
    semaphore = BASE + 6000
    local = _operation(world, 1024, (semaphore, 2))
    array = world.put(5000, "<2Q", semaphore, 3)
    world.put(4096, "<3Q3Q", 0, 0, 0, 1, array, array + 8)  # a submission: no waits, one signal
    world.put(4096 + 48, "<i", 5)
    world.put(4096 - 1048, "<Q", BASE + 8)
    world.put(4096 + 408, "<Q", BASE + 16)
    waited = Semaphore(semaphore, 1, False, (Waiter(BASE + 7000, 2),))
    found = find_operations(world.image(), {semaphore: waited}, vulkan=True)
    assert {at: (one.device, one.kind, one.command_buffer - BASE) for at, one in found.items()} == {
        local: ("local-task", "execute", 3),
        BASE + 4096: ("vulkan", "execute", 16),
    }
    assert set(find_operations(world.image(), {semaphore: waited}, vulkan=False)) == {local}
