"""Which threads run which dispatch, by the stacks that were taken of them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from livedbg.adapters.iree.live.libraries import Dispatch
from livedbg.adapters.iree.live.outsiders import is_worker
from livedbg.model.snapshot import Snapshot


class OnStack(Struct, frozen=True):
    """A dispatch whose code a thread was in.

    Attributes:
        thread: identifier of the thread.
        taken_mono_ns: when its stack was taken.
        address: where in the code it was.
        seen_mono_ns: when a later sample found it there; 0 if none did.
        before: the dispatch that its stack was in before a later sample found it in this one.
        device: name of the device that runs it; "" where that isn't known.
        lines: `FILE:LINE` of where samples found it, by the library's debug information.
    """

    thread: str
    dispatch: Dispatch
    taken_mono_ns: int
    address: int
    seen_mono_ns: int = 0
    before: str = ""
    device: str = ""
    lines: tuple[str, ...] = ()


def dispatches_on_stacks(
    process: str, at: Callable[[int], Dispatch | None], snapshot: Snapshot, *, in_callers: str
) -> list[OnStack]:
    """The innermost dispatch on the newest stack of each living thread of a process that runs.

    Args:
        process: the process.
        at: the dispatch whose code an address is in.
        snapshot: the state.
        in_callers: name of the device that runs dispatches in the threads that call it; "" where that isn't known.
    """
    found = []
    for thread in snapshot.threads.values():
        stack = snapshot.stacks.get(thread.id)
        if thread.process != process or thread.exited or stack is None:
            continue
        for frame in stack.frames:
            dispatch = at(frame.address) if frame.address else None
            if dispatch is not None and frame.address:
                device = dispatch.device or ("local-task" if is_worker(thread) else in_callers)
                found.append(OnStack(thread.id, dispatch, stack.taken_mono_ns, frame.address, device=device))
                break
    return found
