"""Callers that unwind tables don't give: above stacks full of what earlier calls left, none is wrong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.unwind import callers, code_heights
from livedbg.unwind.code_heights import Depth, depth_at, follows_call
from livedbg.unwind.modules import Modules
from livedbg.unwind.places import FunctionStarts
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound
from tests.conftest import Target, settled
from tests.unwind.conftest import copied

NO_TABLES: Final = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g0")
BUILDS: Final = {
    "O0": ("-O0", "-g0"),
    "O0-no-tables": ("-O0", *NO_TABLES),
    "O2-no-tables": ("-O2", *NO_TABLES),
    "O2-pointers-no-tables": ("-O2", "-fno-omit-frame-pointer", *NO_TABLES),
    "O0-unknown-no-tables": ("-O0", "-DSIZE_UNKNOWN", *NO_TABLES),
}
INNER: Final = ["waits", "middle", "indirect", "calls"]
START: Final = 0x401000


@pytest.fixture(autouse=True)
def decoder() -> None:
    pytest.importorskip("capstone")


def done(*argv: str | Path) -> None:
    """Run a program."""
    subprocess.run(argv, check=True, timeout=250)


async def stacks_of(target: Target, pool: UnwinderPool) -> tuple[Unwound, Unwound]:
    """Those of the main thread and of the other one."""
    settled(target.pid)
    found = await (await pool.of(target.pid)).unwind(copied(target.pid), 100)
    (other,) = (stack for tid, stack in found.items() if tid != target.pid)
    return found[target.pid], other


def in_program(stack: Unwound, program: Path) -> list[str]:
    return [frame.function for frame in stack.frames if frame.module == program.name]


@pytest.mark.invariant("callers.C2")
@pytest.mark.parametrize("build", BUILDS)
async def test_C2_leftovers_of_earlier_calls_are_no_callers(
    build: str, build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool
) -> None:
    program = build_target("leftovers", *BUILDS[build], output=f"leftovers-{build}")
    main, other = await stacks_of(spawn([program]), pool)
    assert in_program(main, program) == [*INNER, "main"]
    assert in_program(other, program) == [*INNER, "enters"]


@pytest.mark.invariant("callers.C2")
@pytest.mark.parametrize("build", ["O0-no-tables", "O2-no-tables", "O0-unknown-no-tables"])
async def test_C2_without_symbols_frames_may_be_missing_and_none_is_wrong(
    build: str, build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool, tmp_path: Path
) -> None:
    program = build_target("leftovers", *BUILDS[build], output=f"leftovers-{build}")
    bare = tmp_path / program.name
    done("strip", "-o", bare, program)
    places = []
    for one in (program, bare):
        target = spawn([one])
        stacks = await stacks_of(target, pool)
        modules = Modules(target.pid, copied(target.pid).mappings)
        places.append([_places(stack, modules, one) for stack in stacks])
        if one is bare:
            assert not any(stack.whole and len(found) < 5 for stack, found in zip(stacks, places[1], strict=True))
    for named, nameless in zip(*places, strict=True):
        assert len(named) == 5 and len(nameless) >= 2
        assert nameless[: len(named)] == named[: len(nameless)]


def _places(stack: Unwound, modules: Modules, program: Path) -> list[int]:
    found = []
    for frame in stack.frames:
        module = modules.at(frame.address or 0)
        if module is not None and module.name == program.name and frame.address is not None:
            found.append(frame.address - module.bias)
    return found


@pytest.mark.invariant("drgn_stacks.T1")
async def test_T1_what_rests_on_a_guess_is_not_whole(
    build_target: Callable[..., Path],
    spawn: Callable[..., Target],
    pool: UnwinderPool,
) -> None:
    program = build_target("leftovers", *BUILDS["O0"], output="leftovers-O0")
    sure = await stacks_of(spawn([program]), pool)
    assert all(stack.whole for stack in sure)
    unknown = "O0-unknown-no-tables"
    program = build_target("leftovers", *BUILDS[unknown], output=f"leftovers-{unknown}")
    assert not any(stack.whole for stack in await stacks_of(spawn([program]), pool))


async def test_code_that_a_program_made_itself_is_a_frame_without_a_name(
    spawn: Callable[..., Target], pool: UnwinderPool, tmp_path: Path
) -> None:
    source = Path(__file__).with_name("matrix") / "programs" / "generated.c"
    program = tmp_path / "generated"
    done("gcc", "-O2", source, "-o", program)
    target = spawn([program])
    settled(target.pid)
    (stack,) = (await (await pool.of(target.pid)).unwind(copied(target.pid), 100)).values()
    made = stack.frames[-3]
    assert [frame.function for frame in stack.frames][-4:] == ["waits", f"{made.address:#x}", "calls", "main"]
    assert made.module is None and stack.whole


def reader(code: bytes) -> Callable[[int, int], bytes]:
    return lambda address, size: code[max(0, address - START) : max(0, address - START + size)]


def depth(code: str, length: int | None = None) -> Depth | None:
    """That behind some code, written in hexadecimal digits."""
    data = bytes.fromhex(code)
    return depth_at(reader(data + b"\x90"), START, START + (len(data) if length is None else length))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", Depth(0, None, True, None)),
        ("f30f1efa 55 4889e5 4883ec20", Depth(0x28, 0x20, False, 0x20)),  # endbr64; push; mov; sub $0x20
        ("4154 55 53 4881ec00100000", Depth(0x1018, 0x1008, True, None)),
        ("4883ec18 6a00 4883c408", Depth(0x18, None, True, None)),
        ("55 4889e5 4883e4c0", None),  # and $-64,%rsp
        ("55 4889e5 4829c4", None),  # sub %rax,%rsp
        ("55 4889e5 4829c4 488d65f0", Depth(0x18, 0x10, False, 0x10)),  # lea -0x10(%rbp),%rsp
        ("55 4889e5 4829c4 c9", Depth(0, None, True, None)),  # leave
        ("4889fd", Depth(0, None, False, None)),  # mov %rdi,%rbp: the caller's is lost
        ("7401 50", None),  # je over a push
        ("50 7401 58 7400", None),  # a pop on one way only
        ("eb01 c3 50", Depth(8, None, True, None)),  # jmp over a ret
        ("c3 50", None),  # nothing leads behind a ret
        ("ebfe", None),  # a loop without an end
    ],
)
@pytest.mark.invariant("code_heights.H1")
def test_H1_a_depth_is_given_where_all_ways_agree(code: str, expected: Depth | None) -> None:
    assert depth(code) == expected


@pytest.mark.invariant("code_heights.H2")
def test_H2_what_is_followed_is_bounded() -> None:
    assert depth("50" * 3000) == Depth(24000, None, True, None)
    assert depth("50" * 100_000) is None
    assert len(code_heights._followed(reader(b"\x50" * 100_000), START)[0]) <= code_heights._MOST


@pytest.mark.parametrize(
    ("code", "called"),
    [
        ("e8fbffffff", (True, START)),
        ("e800000000", (True, START + 5)),
        ("ffd0", (True, None)),  # call *%rax
        ("41ffd4", (True, None)),  # call *%r12
        ("ff5008", (True, None)),
        ("ff542408", (True, None)),
        ("ff1500000010", (True, None)),  # call *0x10000000(%rip)
        ("41ff942400010000", (True, None)),
        ("ffe0", (False, None)),  # jmp *%rax
        ("909090909090", (False, None)),
        ("", (False, None)),
    ],
)
@pytest.mark.invariant("callers.C1")
def test_C1_what_is_behind_a_call(code: str, called: tuple[bool, int | None]) -> None:
    data = bytes.fromhex(code)
    assert follows_call(data[-8:], START + len(data)) == called


@pytest.mark.invariant("places.S1")
def test_S1_functions_begin_where_the_symbols_have_them(build_target: Callable[..., Path]) -> None:
    program = build_target("leftovers", *BUILDS["O0"], output="leftovers-O0")
    starts = FunctionStarts(program)
    assert starts.known
    with ElfFile(program) as elf:
        for symbol in defined_symbols(elf, ["waits", "middle", "main"]).values():
            assert starts.at(symbol.address) == starts.at(symbol.address + symbol.size - 1) == symbol.address
            assert starts.at(symbol.address + symbol.size) != symbol.address
    assert starts.at(0) is None and starts.at(1 << 40) is None


@pytest.mark.invariant("places.S1")
def test_S1_a_damaged_table_says_nothing(build_target: Callable[..., Path], tmp_path: Path) -> None:
    program = build_target("leftovers", *BUILDS["O0"], output="leftovers-O0")
    data = program.read_bytes()
    with ElfFile(program) as elf:
        place, (waits,) = elf.section_place(".eh_frame_hdr"), defined_symbols(elf, ["waits"]).values()
    assert place is not None
    (tmp_path / "short").write_bytes(data[: place.offset])
    (tmp_path / "other").write_bytes(data[: place.offset] + bytes(4) + data[place.offset + 4 :])
    nothing = b"\xff" * 4 + bytes(place.size - 12)
    (tmp_path / "nothing").write_bytes(data[: place.offset + 8] + nothing + data[place.offset + place.size :])
    for name in ("short", "other", "absent"):
        assert not FunctionStarts(tmp_path / name).known
    assert FunctionStarts(tmp_path / "nothing").at(waits.address) is None


@pytest.mark.invariant("places.S2")
def test_S2_what_is_remembered_is_bounded(build_target: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.unwind.places._MOST", 10)
    starts = FunctionStarts(build_target("leftovers", *BUILDS["O0"], output="leftovers-O0"))
    for address in range(0x1000, 0x1100):
        starts.at(address)
    assert len(starts._found) <= 10


def test_without_a_decoder_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "usable", lambda: False)
    modules = Modules(os.getpid(), [])
    found = callers.Callers(os.getpid(), modules, None, lambda _address, _size: b"")  # type: ignore[arg-type]
    assert found.of(START, START, 0, None, 0) is None
