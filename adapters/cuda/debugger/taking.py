"""A core dump of a live process on request: asked for, written to the ledger, opened."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from livedbg.adapters.cuda.debugger.dump import Dumped, ask_for_dump, has_ended
from livedbg.adapters.cuda.debugger.opening import cores_of, open_core
from livedbg.adapters.cuda.debugger.pipes import DumpPlace
from livedbg.model import Intrusion
from livedbg.model.devices import DeviceState
from livedbg.model.errors import TargetGone, TargetUnsuitable, TouchRefused

__all__ = ["dump", "opened", "refuse_abort"]


def refuse_abort(place: DumpPlace) -> None:
    """Ask before a dump that may end the process.

    Raises:
        TouchRefused: its environment doesn't say that it goes on after a dump.
    """
    if not place.survives:
        raise TouchRefused(
            f"The driver may abort process {place.pid} after the dump: skip_abort is not among its "
            "CUDA_COREDUMP_GENERATION_FLAGS.",
            f"livedbg device {place.pid} --dump --may-abort takes the risk",
            "may-abort",
        )


async def dump(place: DumpPlace, target: str, touched: Callable[[Intrusion], None], limit_s: float) -> Dumped:
    """Have the dump written.

    Args:
        place: where it is asked for.
        target: identifier of the process.
        touched: gets the entry for the ledger, also where no dump came.
        limit_s: how long it is waited for.

    Raises:
        TouchRefused, TargetGone, TargetUnsuitable: nothing was touched.
        NoDump: no whole dump came in time.
    """
    at_wall_ns = time.time_ns()

    def entry(took_ns: int, *, measured: bool) -> Intrusion:
        why = "asked for: what runs on the device; its kernels stood no longer than this"
        return Intrusion(
            target=target,
            what="gpu dump",
            why=why if measured else "asked for: what runs on the device; no whole dump came in this time",
            paused_ns=took_ns,
            stops=1,
            measured=measured,
            at_wall_ns=at_wall_ns,
        )

    try:
        dumped = await ask_for_dump(place, limit_s)
    except (TouchRefused, TargetGone, TargetUnsuitable):
        raise
    except BaseException:
        touched(entry(time.time_ns() - at_wall_ns, measured=False))
        raise
    touched(entry(dumped.took_ns, measured=True))
    return dumped


async def opened(gdb: str, dumped: Dumped, place: DumpPlace, target: str, limit_s: float) -> DeviceState:
    """What stands in a dump.

    Raises:
        SourceError, GdbGone, GdbTimeout, ToolMissing: it can't be read.
    """
    core, _host = cores_of([dumped.path])
    state = await open_core(gdb, core, None, target, source="dump on request", limit_s=limit_s)
    if has_ended(place.pid):
        return replace(state, notes=(*state.notes, f"Process {place.pid} has ended after the dump."))
    return state
