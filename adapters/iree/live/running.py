"""Which threads run which dispatch, by the stacks that were taken of them."""

from __future__ import annotations

from msgspec import Struct

from livedbg.adapters.iree.live.libraries import Dispatch, Libraries
from livedbg.model.snapshot import Snapshot

__all__ = ["OnStack", "dispatches_on_stacks"]


class OnStack(Struct, frozen=True):
    """A dispatch whose code a thread was in.

    Attributes:
        thread: identifier of the thread.
        taken_mono_ns: when its stack was taken.
        address: where in the code it was.
        seen_mono_ns: when a later sample found it there; 0 if none did.
    """

    thread: str
    dispatch: Dispatch
    taken_mono_ns: int
    address: int
    seen_mono_ns: int = 0


def dispatches_on_stacks(process: str, libraries: Libraries, snapshot: Snapshot) -> list[OnStack]:
    """The innermost dispatch on the newest stack of each living thread of a process that runs."""
    found = []
    for thread in snapshot.threads.values():
        stack = snapshot.stacks.get(thread.id)
        if thread.process != process or thread.exited or stack is None:
            continue
        for frame in stack.frames:
            dispatch = libraries.at(frame.address) if frame.address else None
            if dispatch is not None and frame.address:
                found.append(OnStack(thread.id, dispatch, stack.taken_mono_ns, frame.address))
                break
    return found
