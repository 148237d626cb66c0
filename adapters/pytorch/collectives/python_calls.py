"""What threads call of torch.distributed now, from the Python frames in memory: the peer of a send or recv, the root of
a broadcast, and calls that no recorder has.

Invariants:
    python_calls.P1. A call is one only if the innermost Python frame of its thread is in the function: what a thread
        has posted and does not wait for is none.
    python_calls.P2. A peer is given only if it is a rank of the group; else it is not known.

Source: torch/distributed/distributed_c10d.py (2.13).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.groups import WORLD, Groups
from livedbg.cpython.frame_locals import FrameLocals
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread, ThreadReader

__all__ = ["CallReader", "PythonCall"]

_FILE: Final = "/torch/distributed/distributed_c10d.py"
_PEERS: Final = {
    "recv": ("src", "group_src"),
    "send": ("dst", "group_dst"),
    "broadcast": ("src", "group_src"),
    "scatter": ("src", "group_src"),
    "reduce": ("dst", "group_dst"),
    "gather": ("dst", "group_dst"),
    "monitored_barrier": (),
}
"""Functions that wait, and their parameters for the other rank: by its global number, and by that in the group."""


class PythonCall(Struct, frozen=True, kw_only=True):
    """One call.

    Attributes:
        ident: pthread_self(3) of its thread.
        name: of the function.
        group: the group's name.
        peer: global rank of who sends, receives, or is the root; None where there is none, or it is not known.
        tag: of a message.
        objects: addresses of its variables' values: another call of the same function has others.
    """

    ident: int
    name: str
    group: str
    peer: int | None
    tag: int
    objects: tuple[int, ...]


class CallReader:
    """Reads the calls of one process; not for long, since it remembers code objects.

    Args:
        reader: reads the threads of the process.
    """

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._heap = HeapReader(reader.objects)
        self._locals = FrameLocals(self._heap)

    def threads(self) -> list[PyThread]:
        """The threads now.

        Raises:
            OSError: gone, or it changes too fast.
        """
        return self._reader.threads()

    def unknown_group(self, threads: list[PyThread], groups: Groups) -> bool:
        """Whether a thread calls something of a group that is not known.

        Raises:
            OSError: not readable.
        """
        return any(self._group(frame, groups) is None for _, frame in _frames(threads))

    def calls(self, threads: list[PyThread], groups: Groups) -> tuple[PythonCall, ...]:
        """What the threads call.

        Args:
            threads: as just read.
            groups: of the process.

        Raises:
            OSError: not readable.
        """
        return tuple(self._call(thread, frame, groups) for thread, frame in _frames(threads))

    def _call(self, thread: PyThread, frame: PyFrame, groups: Groups) -> PythonCall:
        name = frame.code.name
        group = self._group(frame, groups) or ""
        return PythonCall(
            ident=thread.ident,
            name=name,
            group=group,
            peer=self._peer(frame, groups.ranks.get(group, ())),
            tag=self._number(frame, "tag") or 0,
            objects=frame.slots[: frame.code.locals_count],
        )

    def _peer(self, frame: PyFrame, members: tuple[int, ...]) -> int | None:
        names = _PEERS[frame.code.name]
        if not names:
            return None
        own = self._number(frame, names[1])
        if own is not None:
            return members[own] if 0 <= own < len(members) else None
        everywhere = self._number(frame, names[0])
        return everywhere if everywhere in members else None

    def _number(self, frame: PyFrame, name: str) -> int | None:
        at = self._locals.of(frame, {name}).get(name)
        return self._heap.integer(at) if at is not None else None

    def _group(self, frame: PyFrame, groups: Groups) -> str | None:
        """The name of the group of a call; None where it is not known."""
        at = self._locals.of(frame, {"group"}).get("group")
        if at is None or self._heap.type_name(at) == "NoneType":
            return WORLD if WORLD in groups.ranks else None
        return groups.objects.get(at)


def _frames(threads: list[PyThread]) -> list[tuple[PyThread, PyFrame]]:
    """The threads that are in one of the functions, each with its frame there (P1)."""
    innermost = [(thread, thread.frames[0]) for thread in threads if thread.frames]
    return [
        (thread, frame) for thread, frame in innermost if frame.code.name in _PEERS and frame.code.file.endswith(_FILE)
    ]
