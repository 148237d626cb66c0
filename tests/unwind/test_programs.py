"""Programs of drgn's that are kept: when one is used again, and when it is not."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.unwind.wire import Copied, CopiedStacks, Reply, Request, WireMapping, write_stacks
from tests.conftest import Target, settled
from tests.unwind.conftest import copied

pytest.importorskip("drgn")

from livedbg.unwind import drgn_files
from livedbg.unwind.drgn_files import KeptProgram, Programs
from livedbg.unwind.drgn_stacks import answer
from livedbg.unwind.places import Places


def unwound(pid: int, kept: Programs, folder: Path) -> Reply:
    settled(pid)
    copies = copied(pid)
    write_stacks(folder / "copies", copies.threads)
    threads = [Copied(one.tid, one.low, one.low + len(one.stack), one.registers) for one in copies.threads]
    mappings = [WireMapping.of(mapping) for mapping in copies.mappings]
    return answer(Request(pid, str(folder / "copies"), mappings, threads), Places(), kept)


def functions(reply: Reply) -> set[str | None]:
    return {frame.function for frame in reply.frames}


@pytest.mark.invariant("programs.P1")
def test_P1_a_program_is_used_again_until_a_file_of_it_changes(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    program = tmp_path / "stacks"
    shutil.copy(build_target("stacks", "-O2", output="stacks-O2"), program)
    target, kept = spawn([program, "2"]), Programs()
    before = unwound(target.pid, kept, tmp_path)
    (first,) = kept._kept
    again = unwound(target.pid, kept, tmp_path)
    assert kept._kept == [first] and {"main"} <= functions(again) == functions(before)
    os.utime(program)  # as if it had been written
    assert {"main"} <= functions(unwound(target.pid, kept, tmp_path))
    assert len(kept._kept) == 2 and kept._kept[0] is not first


@pytest.mark.invariant("programs.P1")
def test_P1_a_forked_process_shares_and_another_start_of_the_program_does_not(
    spawn: Callable[..., Target], tmp_path: Path
) -> None:
    program = "import os, time; child = os.fork(); child and print('READY', child, flush=True); time.sleep(1000)"
    target = spawn([sys.executable, "-c", program])
    child = int((Path(f"/proc/{target.pid}/task/{target.pid}/children")).read_text())
    kept = Programs()
    own = unwound(target.pid, kept, tmp_path)
    assert own.stacks[0].whole
    assert functions(unwound(child, kept, tmp_path)) == functions(own) and len(kept._kept) == 1
    other = spawn([sys.executable, "-c", program])
    assert functions(unwound(other.pid, kept, tmp_path)) == functions(own) and len(kept._kept) == 2
    for pid in (child, int(Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text())):
        os.kill(pid, 9)


@pytest.mark.invariant("programs.P2")
def test_P2_those_that_were_used_last_are_kept(
    build_target: Callable[..., Path],
    spawn: Callable[..., Target],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drgn_files, "MOST", 2)
    first, second, third = (spawn([build_target("stacks", "-O2", output="stacks-O2"), "1"]) for _ in range(3))
    kept = Programs()
    used: list[KeptProgram] = []
    for target in (first, second, first, third, first):
        unwound(target.pid, kept, tmp_path)
        used.append(kept._kept[0])
        assert len(kept._kept) <= 2
    assert used[0] is used[2] is used[4]


def test_nothing_but_the_stacks_of_the_request_can_be_read(tmp_path: Path) -> None:
    stacks = CopiedStacks()
    file = tmp_path / "stacks"
    file.write_bytes(b"abcdefgh" + b"01234567")
    stacks.take(file, [Copied(1, 0x2000, 0x2008, ()), Copied(2, 0x1000, 0x1008, ())])
    assert (stacks.read(0x2000, 8), stacks.read(0x1002, 4)) == (b"abcdefgh", b"2345")
    for address, size in ((0xFFF, 4), (0x1006, 4), (0x2008, 1), (0, 8)):
        with pytest.raises(LookupError):
            stacks.read(address, size)
    with pytest.raises(ValueError, match="cut short"):
        stacks.take(file, [Copied(1, 0x2000, 0x2100, ())])
    with pytest.raises(LookupError):
        stacks.read(0x2000, 8)
