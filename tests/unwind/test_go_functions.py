"""Names of functions in stripped Go programs."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from livedbg.linux.elf import ElfError, ElfFile
from livedbg.unwind.dwarf_functions import FunctionSymbols, go_functions_at
from livedbg.unwind.pool import UnwinderPool
from tests.conftest import Target, settled
from tests.unwind.conftest import copied

TEXT = 0x401000
FUNCTIONS = (("main.main", 0), ("main.(*Queue[...]).pop", 0x40), ("runtime.goexit", 0x100))
END = 0x180


def table(
    magic: int = 0xFFFFFFF1, text: int = TEXT, word: int = 8, functions: Sequence[tuple[str, int]] = FUNCTIONS
) -> bytes:
    """Go's table of some functions."""
    names = b"".join(name.encode() + b"\0" for name, _ in functions)
    names_at = 8 + 8 * 8
    table_at = names_at + len(names)
    described = 8 * len(functions) + 4
    entries, bodies, at = b"", b"", 0
    for number, (name, begins) in enumerate(functions):
        entries += struct.pack("<II", begins, described + 8 * number)
        bodies += struct.pack("<Ii", begins, at)
        at += len(name) + 1
    head = struct.pack("<IHBB8Q", magic, 0, 1, word, len(functions), 0, text, names_at, 0, 0, 0, table_at)
    return head + names + entries + struct.pack("<I", END) + bodies


def program(path: Path, go: bytes) -> Path:
    """An ELF file that holds nothing else."""
    names = b"\0.gopclntab\0.shstrtab\0"
    go_at, names_at = 64, 64 + len(go)
    sections_at = names_at + len(names)
    section = struct.Struct("<IIQQQQIIQQ")
    sections = section.pack(*[0] * 10)
    sections += section.pack(1, 1, 2, 0x500000, go_at, len(go), 0, 0, 1, 0)
    sections += section.pack(12, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    ident = b"\x7fELF\2\1\1" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, sections_at, 0, 64, 56, 0, 64, 3, 2)
    path.write_bytes(header + go + names + sections)
    return path


def named(path: Path, *places: int) -> list[str | None]:
    with ElfFile(path) as elf:
        found = go_functions_at(elf, [TEXT + place for place in places])
    return [found.get(TEXT + place) for place in places]


@pytest.mark.invariant("dwarf_functions.G1")
@pytest.mark.parametrize("magic", [0xFFFFFFF0, 0xFFFFFFF1])
def test_G1_each_address_has_the_function_that_it_lies_in(tmp_path: Path, magic: int) -> None:
    file = program(tmp_path / "go", table(magic))
    names = [name for name, _ in FUNCTIONS]
    assert named(file, 0, 0x3F, 0x40, 0xFF, 0x100, END - 1) == [name for name in names for _ in range(2)]
    assert named(file, -1, END, 1 << 40, -TEXT) == [None] * 4
    assert FunctionSymbols().at("go", [file], [TEXT + 0x41]) == {TEXT + 0x41: names[1]}


@pytest.mark.parametrize("other", [{"magic": 0xFFFFFFFA}, {"magic": 0xFFFFFFF2}, {"text": 0}, {"word": 4}])
def test_of_other_versions_nothing_is_known(tmp_path: Path, other: dict[str, int]) -> None:
    assert named(program(tmp_path / "go", table(**other)), 0, 0x40) == [None, None]


def test_a_damaged_table_ends_nothing(tmp_path: Path) -> None:
    whole = table()
    for size in range(0, len(whole), 3):
        file = program(tmp_path / "go", whole[:size])
        try:
            found = named(file, 0, 0x50, 0x17F)
        except ElfError:
            continue
        assert len(found) == 3
    full = bytearray(whole)
    struct.pack_into("<Q", full, 8, 1 << 60)  # as many functions
    assert named(program(tmp_path / "go", bytes(full)), 0) == [None]


def test_a_file_of_another_language_has_none(build_target: Callable[..., Path]) -> None:
    assert named(build_target("stacks", "-O2", output="stacks-O2"), 0) == [None]


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
async def test_a_stripped_program_of_go(spawn: Callable[..., Target], pool: UnwinderPool, tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    made = tmp_path / "waits"
    build(Path(__file__).with_name("matrix") / "programs" / "waits.go", made, tmp_path)
    target = spawn([made])
    settled(target.pid)
    stacks = await (await pool.of(target.pid)).unwind(copied(target.pid), 100)
    functions = {frame.function for stack in stacks.values() for frame in stack.frames}
    assert "main.outer" in functions


def build(source: Path, made: Path, folder: Path) -> None:
    """Build and strip a program."""
    argv = ["go", "build", "-ldflags", "-s -w", "-o", str(made), str(source)]
    env = os.environ | {"GOCACHE": str(folder / "cache"), "GOFLAGS": "-p=1", "CGO_ENABLED": "0"}
    subprocess.run(argv, check=True, timeout=500, env=env, capture_output=True)
