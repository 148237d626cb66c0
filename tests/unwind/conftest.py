"""Programs that wait, and what unwinds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.session.tools import find_gdb
from livedbg.unwind.capture import Capture, capture
from livedbg.unwind.helper_process import usable
from livedbg.unwind.pool import UnwinderPool
from tests.conftest import Target, settled


@pytest.fixture
def waiting(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """Eight threads that wait."""
    target = spawn([build_target("stacks", "-O2", output="stacks-O2"), "8"])
    settled(target.pid)
    return target


@pytest.fixture(params=["O0", "O2"])
def with_values(
    request: pytest.FixtureRequest, build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> Target:
    """A thread that waits with known values in its variables."""
    if not usable():
        pytest.skip("drgn is not installed")
    target = spawn([build_target("native_locals", f"-{request.param}", output=f"native_locals-{request.param}")])
    settled(target.pid)
    return target


@pytest.fixture
async def pool() -> AsyncIterator[UnwinderPool]:
    """Unwinders by drgn, and gdb where it has to be."""
    if not usable():
        pytest.skip("drgn is not installed")
    made = UnwinderPool(find_gdb())
    try:
        yield made
    finally:
        await made.close()


def copied(pid: int) -> Capture:
    """A copy of all threads of a process."""
    return capture(pid, procfs.thread_ids(pid))
