"""Unwind tables of LLVM's section type."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

from livedbg.unwind.drgn_files import readable_tables
from livedbg.unwind.pool import UnwinderPool
from tests.conftest import Target, settled
from tests.unwind.conftest import copied

SHT_X86_64_UNWIND = 0x70000001


def as_by_llvm(file: Path, made: Path) -> None:
    """A copy of a program whose unwind tables have that type."""
    data = bytearray(file.read_bytes())
    (at,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    (texts,) = struct.unpack_from("<Q", data, at + names * 64 + 24)
    for number in range(count):
        (name,) = struct.unpack_from("<I", data, at + number * 64)
        if data[texts + name :].startswith(b".eh_frame\0"):
            struct.pack_into("<I", data, at + number * 64 + 4, SHT_X86_64_UNWIND)
    made.write_bytes(data)
    made.chmod(0o755)


async def test_tables_of_llvm_unwind_whole_stacks(
    build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool, tmp_path: Path
) -> None:
    program = tmp_path / "stacks-llvm"
    as_by_llvm(build_target("stacks", "-O2", output="stacks-O2"), program)
    target = spawn([program, "8"])
    settled(target.pid)
    stacks = await (await pool.of(target.pid)).unwind(copied(target.pid), 100)
    functions = {frame.function for stack in stacks.values() for frame in stack.frames}
    assert {"take_gate", "wait_for_credit", "wait_for_events", "demo::Queue<long>::pop", "descend"} <= functions
    assert all(stack.whole for stack in stacks.values())
    descending = [stack for stack in stacks.values() if "descend" in {frame.function for frame in stack.frames}]
    assert all("dispatch" in {frame.function for frame in stack.frames} for stack in descending)


def test_what_is_ordinary_or_damaged_needs_no_copy(build_target: Callable[..., Path], tmp_path: Path) -> None:
    program = build_target("stacks", "-O2", output="stacks-O2")
    assert readable_tables(program) == -1
    as_by_llvm(program, tmp_path / "llvm")
    os.truncate(tmp_path / "llvm", 1 << 30)
    made = readable_tables(tmp_path / "llvm")
    assert made >= 0
    assert os.fstat(made).st_size < program.stat().st_size
    os.close(made)
    as_by_llvm(program, tmp_path / "llvm")
    for size in (0, 10, 64, 1000):
        (tmp_path / "cut").write_bytes((tmp_path / "llvm").read_bytes()[:size])
        assert readable_tables(tmp_path / "cut") == -1
