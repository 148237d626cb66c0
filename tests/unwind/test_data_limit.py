"""Files larger than what the unwinding process may have of its own: drgn maps them whole."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.linux.maps import parse_maps
from livedbg.unwind.helper import MOST, OWN, TIMES, DataLimit
from livedbg.unwind.pool import UnwinderPool
from tests.conftest import Target, settled
from tests.unwind.conftest import copied


@pytest.fixture
def old_limit() -> Iterator[tuple[int, int]]:
    """The limit of this process, which is set again at the end."""
    known = resource.getrlimit(resource.RLIMIT_DATA)
    yield known
    resource.setrlimit(resource.RLIMIT_DATA, known)


def large(program: Path, folder: Path, size: int) -> Path:
    """A copy of a program that is so large, most of it a hole."""
    made = folder / "large"
    shutil.copy2(program, made)
    os.truncate(made, size)
    return made


@pytest.mark.parametrize("rest_mib", [48, 40, 32])
async def test_a_program_whose_file_is_as_large_as_the_limit_is_unwound(
    rest_mib: int,
    build_target: Callable[..., Path],
    spawn: Callable[..., Target],
    pool: UnwinderPool,
    tmp_path: Path,
) -> None:
    program = build_target("stacks", "-O2", output="stacks-O2")
    target = spawn([large(program, tmp_path, OWN - (rest_mib << 20)), "8"])
    settled(target.pid)
    for _ in range(3):
        stacks = await (await pool.of(target.pid)).unwind(copied(target.pid), 100)
        functions = {frame.function for stack in stacks.values() for frame in stack.frames}
        assert {"take_gate", "wait_for_credit", "demo::Queue<long>::pop"} <= functions


@pytest.mark.invariant("helper.G1")
def test_G1_each_file_with_code_counts_once(
    old_limit: tuple[int, int], build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    if old_limit[1] != resource.RLIM_INFINITY:
        pytest.skip("the limit of this machine can't be raised")
    target = spawn([large(build_target("stacks", "-O2", output="stacks-O2"), tmp_path, 1 << 30), "8"])
    mappings = parse_maps(target.pid)
    files = {m.inode: m.path for m in mappings if m.executable and m.path.startswith("/")}
    limit = DataLimit()
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == OWN
    for _ in range(2):
        limit.allow(target.pid, mappings)
        sizes = sum(Path(path).stat().st_size for path in files.values())
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == OWN + TIMES * sizes > OWN + TIMES * (1 << 30)


@pytest.mark.invariant("helper.G1")
def test_G1_files_of_any_size_raise_it_to_its_most(
    old_limit: tuple[int, int], build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    if old_limit[1] != resource.RLIM_INFINITY:
        pytest.skip("the limit of this machine can't be raised")
    target = spawn([large(build_target("stacks", "-O2", output="stacks-O2"), tmp_path, MOST), "8"])
    DataLimit().allow(target.pid, parse_maps(target.pid))
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == MOST
