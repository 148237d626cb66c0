"""What a Vulkan submission runs: its command buffer, and the driver's code, in memory that is made up and for real."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from livedbg.adapters.iree.live.libraries import Dispatch, read_code
from livedbg.adapters.iree.live.recordings import Recording
from livedbg.adapters.iree.live.shot import Reader, Shot, read_submissions
from tests.adapters.iree.conftest import Compile, needs_lavapipe, tool, vulkan_here
from tests.adapters.iree.test_shapes import BASE, RUNTIME, TABLE, World
from tests.conftest import Target, seen_when

JIT = 0x7800_0000_0000
BUFFER, BLOCK, EXECUTABLE, PIPELINES = 64, 512, 1536, 2048
FILL, DISPATCH, BARRIER = 0, 3, 4


def _record(kind: int, *words: int, size: int = 48) -> bytes:
    return struct.pack(f"<QI4x{len(words)}Q", size, kind, *words).ljust(size, b"\0")


def _world(*records: bytes) -> World:
    """A command buffer of one block, and an executable with two pipelines."""
    world = World()
    world.put(BUFFER, "<2Q", 2, TABLE)
    world.put(BUFFER + 144, "<2Q", BASE + BLOCK, BASE + BLOCK)
    data = b"".join(records)
    world.put(BLOCK, "<3Q", 0, len(data), 1000)
    world.bytes[BLOCK + 32 : BLOCK + 32 + len(data)] = data
    world.put(EXECUTABLE, "<2Q", 1, TABLE)
    world.put(EXECUTABLE + 88, "<2Q", 2, BASE + PIPELINES)
    for number, name in enumerate((b"first", b"second")):
        at = PIPELINES + 160 * number
        world.put(at, "<Q", BASE + 4096 + 1024 * number)
        world.put(at + 120, "<2Q", world.name(2560 + 16 * number, name), len(name))
    return world


def _runs(number: int) -> bytes:
    return _record(DISPATCH, BASE + EXECUTABLE, BASE + PIPELINES + 160 * number)


def _read(world: World) -> tuple[dict[int, Recording], dict[int, Dispatch]]:
    return read_submissions(world.image(), [BASE + BUFFER], RUNTIME)


def test_the_commands_of_a_submission_have_the_names_of_their_functions() -> None:
    recordings, pipelines = _read(_world(_record(FILL), _record(BARRIER), _runs(1), _record(BARRIER), _runs(0)))
    [recording] = recordings.values()
    told = [(one.kind, one.region, one.dispatch.name if one.dispatch else "") for one in recording.commands]
    assert told == [("fill", 0, ""), ("dispatch", 1, "second"), ("dispatch", 2, "first")]
    assert {handle - BASE: one.name for handle, one in pipelines.items()} == {4096: "first", 5120: "second"}


@pytest.mark.invariant("iree_shot.V1")
@pytest.mark.parametrize(
    "records",
    [
        (_runs(0), _record(9)),  # no such type
        (_runs(0), _record(FILL, size=4096)),  # beyond its block
        (_record(DISPATCH, BASE + EXECUTABLE, BASE + PIPELINES + 320),),  # not in the table
        (_record(DISPATCH, BASE + PIPELINES, BASE + PIPELINES),),  # no executable
    ],
)
def test_V1_a_command_buffer_that_is_not_read_whole_is_none(records: tuple[bytes, ...]) -> None:
    assert _read(_world(*records)) == ({}, {})


def _driver(world: World, *variants: tuple[int, int]) -> World:
    """Two pipelines with their shaders, and variants: code and shader of each."""
    for number in range(2):
        world.put(4096 + 1024 * number - 8, "<Q", 513)  # the size of a block of the heap
        world.put(4096 + 1024 * number + 40, "<2Q", BASE + 16, BASE + 6400 + 64 * number)  # the first is shared
    for place, (code, shader) in enumerate(variants):
        world.put(6800 + 256 * place, "<Q", code)
        world.put(6800 + 256 * place + 64, "<Q", shader)
    return world


FIRST, SECOND = Dispatch(1, 0, "first"), Dispatch(2, 1, "second")
HANDLES = {BASE + 4096: FIRST, BASE + 5120: SECOND}


def _code(world: World, *places: tuple[int, int]) -> list[tuple[int, int, str]]:
    return [(one.start - JIT, one.end - JIT, one.dispatch.name) for one in read_code(world.image(), places, HANDLES)]


def test_code_belongs_to_the_pipeline_that_has_the_same_shader() -> None:
    world = _driver(World(), (JIT, BASE + 6400), (JIT + 0x4000, BASE + 6464))
    found = _code(world, (JIT, JIT + 0x1000), (JIT + 0x4000, JIT + 0x6000))
    assert found == [(0, 0x1000, "first"), (0x4000, 0x6000, "second")]
    together = _driver(World(), (JIT, BASE + 6400), (JIT + 0x1000, BASE + 6464))
    assert _code(together, (JIT, JIT + 0x2000)) == [(0, 0x1000, "first"), (0x1000, 0x2000, "second")]


@pytest.mark.invariant("iree_libraries.J1")
def test_J1_code_that_several_pipelines_or_none_can_claim_has_no_name() -> None:
    both = _driver(World(), (JIT, BASE + 6400), (JIT + 64, BASE + 6464))
    assert _code(both, (JIT, JIT + 0x1000)) == []
    shared = _driver(World(), (JIT, BASE + 16))
    assert _code(shared, (JIT, JIT + 0x1000)) == []
    other = _driver(World(), (JIT, BASE + 6400), (JIT + 0x1000, BASE + 7000))  # of a shader that is not in flight
    assert _code(other, (JIT, JIT + 0x2000)) == [(0, 0x1000, "first")]


@needs_lavapipe
@pytest.mark.iree
def test_the_dispatch_inside_a_submission_is_found_by_the_drivers_code(
    spawn: Callable[..., Target], compiled: Compile
) -> None:
    module = compiled("submission", device="vulkan")
    words = ("--device=vulkan", "--function=main", "--input=1024x1024xf32=1")
    target = spawn([tool("iree-run-module"), f"--module={module}", *words], wait_for=None, env=vulkan_here())
    reader = Reader(target.pid)

    def names(shot: Shot | None) -> set[str]:
        return {one.dispatch.name.rpartition("_dispatch_")[2][:1] for one in shot.code} if shot is not None else set()

    shot = seen_when(lambda shot: "1" in names(shot), reader.look)
    assert shot is not None
    [execute] = [one for one in shot.operations.values() if one.kind == "execute"]
    commands = shot.recordings[execute.command_buffer].commands
    assert [one.dispatch.name[:15] for one in commands] == ["main_dispatch_0", "main_dispatch_1", "main_dispatch_2"]
    [code] = [one for one in shot.code if one.dispatch == commands[1].dispatch]
    assert reader.at(code.start) == commands[1].dispatch and reader.at(code.end) is None
