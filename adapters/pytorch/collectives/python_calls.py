"""What threads call of torch.distributed now, from the Python frames in memory: the peer of a send or recv, the root of
a broadcast, and calls that no recorder has.

Invariants:
    python_calls.P1. A call is one only if the innermost Python frame of its thread is in the function, or for those
        that all ranks go through together in what they call of torch.distributed: what a thread has posted and does
        not wait for is none.
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

_TOGETHER: Final = ("init_process_group", "new_group")
"""Functions that return on a rank only once all ranks have called them."""

_INSIDE: Final = "/torch/distributed/"
_DEPTH: Final = 24


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
        frames = [frame for _, frame in _frames(threads) if frame.code.name not in _TOGETHER]
        return any(self._group(frame, groups) is None for frame in frames)

    def joining(self, threads: list[PyThread]) -> tuple[int, int] | None:
        """The rank and the number of ranks that the process calls `init_process_group` with; None where it does not.

        Raises:
            OSError: not readable.
        """
        for _, frame in _frames(threads):
            if frame.code.name == "init_process_group":
                rank, world = self._number(frame, "rank"), self._number(frame, "world_size")
                if rank is not None and world is not None and 0 <= rank < world:
                    return rank, world
        return None

    def calls(self, threads: list[PyThread], groups: Groups) -> tuple[PythonCall, ...]:
        """What the threads call.

        Args:
            threads: as just read.
            groups: of the process.

        Raises:
            OSError: not readable.
        """
        frames = [(thread, frame) for thread, frame in _frames(threads) if not self._of_some(frame)]
        return tuple(self._call(thread, frame, groups) for thread, frame in frames)

    def _of_some(self, frame: PyFrame) -> bool:
        """Whether only the ranks of a new group have to make it."""
        return frame.code.name == "new_group" and bool(self._number(frame, "use_local_synchronization"))

    def _call(self, thread: PyThread, frame: PyFrame, groups: Groups) -> PythonCall:
        name = frame.code.name
        group = WORLD if name in _TOGETHER else self._group(frame, groups) or ""
        return PythonCall(
            ident=thread.ident,
            name=name,
            group=group,
            peer=self._peer(frame, groups.ranks.get(group, ())),
            tag=self._number(frame, "tag") or 0,
            objects=frame.slots[: frame.code.locals_count],
        )

    def _peer(self, frame: PyFrame, members: tuple[int, ...]) -> int | None:
        names = _PEERS.get(frame.code.name, ())
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
    found = []
    for thread in threads:
        first = thread.frames[0] if thread.frames else None
        if first is None or _INSIDE not in first.code.file:
            continue
        inside = [first] if first.code.name in _PEERS else thread.frames[:_DEPTH]
        names = _PEERS if first.code.name in _PEERS else _TOGETHER
        frame = next((one for one in inside if one.code.name in names and one.code.file.endswith(_FILE)), None)
        if frame is not None:
            found.append((thread, frame))
    return found
