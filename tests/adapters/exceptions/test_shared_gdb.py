"""One unwinding process a session, or one gdb a process, whoever asks for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from livedbg.adapters.exceptions import ExceptionsAdapter
from livedbg.adapters.glance import GlanceAdapter
from livedbg.adapters.native import NativeAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.model.intents import Catch, Glance
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.tools import find_gdb
from livedbg.unwind.helper_process import usable
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwinder import Unwinder
from tests.adapters.exceptions.catching import tell
from tests.conftest import Target, eventually
from tests.probes.refused import refused


def running(name: str) -> set[int]:
    """The processes of a name that we have started and that still run."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if child.name() == name and child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
    return found


@pytest.mark.invariant("unwind_pool.O1")
async def test_O1_the_last_one_ends_it() -> None:
    gdb = find_gdb(None)
    assert gdb is not None
    one, other = UnwinderPool.shared(gdb, drgn=False), UnwinderPool.shared(gdb, drgn=False)
    assert one is other
    unwinder = await one.of(os.getpid())
    assert isinstance(unwinder, Unwinder)
    assert await other.of(os.getpid()) is unwinder
    await one.close()
    assert unwinder.alive
    await other.close()
    assert not unwinder.alive
    fresh = UnwinderPool.shared(gdb, drgn=False)
    assert fresh is not one
    await fresh.close()


@pytest.mark.invariant("unwind_pool.O2")
async def test_O2_one_that_is_at_work_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.unwind.pool._MOST", 1)
    gdb = find_gdb(None)
    assert gdb is not None
    pool = UnwinderPool(gdb, drgn=False)
    try:
        first = await pool.of(os.getpid())
        assert isinstance(first, Unwinder)
        async with first._one_at_a_time:
            await pool.of(os.getppid())
            assert first.alive
        await asyncio.sleep(0)
        await pool.of(1)
        assert not first.alive
    finally:
        await pool.close()


@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
@pytest.mark.parametrize("engine", ["gdb", "livedbg-unwind"])
def test_three_adapters_have_one_process_that_unwinds(
    engine: str, build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    if engine != "gdb" and not usable():
        pytest.skip("drgn is not installed")
    target = spawn([build_target("throws")])
    request = Request(host="box", processes=(TargetProcess(target.pid),), gdb="gdb" if engine == "gdb" else None)
    view = LiveView(request, adapters=[ProcAdapter(), NativeAdapter(), GlanceAdapter(), ExceptionsAdapter()])
    before = running(engine)
    view.start()
    try:
        process = f"process:box/{target.pid}"
        eventually(lambda: bool(view.latest().snapshot.stacks))
        view.send(Glance(process=process))
        view.send(Catch(process=process, pattern="any"))
        eventually(lambda: any(point.engine for point in view.latest().snapshot.catchpoints.values()))
        eventually(lambda: view.latest().snapshot.catchpoints["C1"].state == "armed")
        tell(target, "runtime said so")
        eventually(lambda: any(hit.stack for hit in view.latest().snapshot.exceptions.values()))
        assert len(running(engine) - before) == 1
    finally:
        view.stop()
    eventually(lambda: running(engine) <= before)
