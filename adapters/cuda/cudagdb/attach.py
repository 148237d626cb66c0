"""A sample by an attached cuda-gdb: it stops the whole process and all its GPUs.

For processes that write no core dump. It was never tried on a GPU (docs/systems/cuda.md), so it does as little as
possible: attach, one sample, detach, within a time limit and under the guard (livedbg.touch.guard).

The cuda-gdb manual ("Attaching and Detaching") says: the attach runs functions in the target and may resume it for some
seconds; a process with a device exception ends when it is resumed.

Invariants:
    cuda_gdb_attach.H1. A guard watches from before the attach until after the detach.
    cuda_gdb_attach.H2. The target is released however the sample ends: by command, by the end of the debugger, at last
        by the guard.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from livedbg.adapters.cuda.cudagdb.device_state import state_of
from livedbg.adapters.cuda.cudagdb.engine import Queries, start_cuda_gdb
from livedbg.adapters.cuda.cudagdb.sample import sample_devices
from livedbg.gdbmi import GdbCommandError, GdbEngine
from livedbg.gdbmi.errors import GdbError
from livedbg.model import Intrusion
from livedbg.model.devices import DeviceState
from livedbg.model.errors import TargetDenied
from livedbg.touch.attachable import check_attachable
from livedbg.touch.config import refuse_touch
from livedbg.touch.guard_process import Guard

_DETACH_S: Final = 10.0


async def sample_attached(
    gdb: str, pid: int, target: str, touched: Callable[[Intrusion], None], limit_s: float = 30.0
) -> DeviceState:
    """Attach, sample, detach.

    Args:
        gdb: path of the cuda-gdb.
        pid: the process.
        target: its identifier.
        touched: gets the entry for the ledger, also when the sample fails.
        limit_s: time limit of attach and sample; the detach may take 10 s more.

    Raises:
        TouchRefused: touches are forbidden on this box.
        TargetGone, TargetDenied, TargetUnsuitable: it can't be attached to; nothing was touched.
        GuardMissing: there is no guard; nothing was touched.
        GdbCommandError, GdbGone, GdbTimeout: the debugger failed; the target was detached.
        ToolMissing: the program is no cuda-gdb.
    """
    refuse_touch(None, "cuda-gdb would be attached: the process and all of its GPUs are stopped while it reads")
    start_ticks = check_attachable(pid)
    engine = await start_cuda_gdb(gdb, pid)
    try:
        assert engine.pid is not None
        guard = await Guard.start(pid, start_ticks, engine.pid)
        since_ns, end_s = time.monotonic_ns(), time.monotonic() + limit_s
        try:
            said = await _attach(engine, pid, limit_s)
            queries = Queries(engine, end_s)
            seen = await sample_devices(queries, said)
        finally:
            try:
                await _detach(engine)
            finally:  # also where that is interrupted; then the guard stays
                stopped_ns = time.monotonic_ns() - since_ns
                touched(
                    Intrusion(
                        target=target,
                        what="cuda-gdb attach",
                        why="asked for: what runs on the device",
                        paused_ns=stopped_ns,
                        stops=1,
                        at_wall_ns=time.time_ns() - stopped_ns,
                    )
                )
            await guard.release()
    finally:
        await engine.close()
    return state_of(seen, target, "attach", taken_wall_ns=time.time_ns(), sampling_ns=stopped_ns)


async def _attach(engine: GdbEngine, pid: int, limit_s: float) -> str:
    try:
        return await engine.console(f"attach {pid}", limit_s)
    except GdbCommandError as error:
        if "not permitted" in error.message:
            raise TargetDenied(
                f"The kernel does not let cuda-gdb attach to process {pid}.", "sudo livedbg device …", "no-permission"
            ) from None
        raise


async def _detach(engine: GdbEngine) -> None:
    try:
        await engine.command("-target-detach", _DETACH_S)
    except GdbError:
        await engine.close()  # at the end of its input it detaches; the guard wakes what it left behind
