"""What threads call of torch.distributed now, from the Python frames in memory: the peer of a send or recv, the root of
a broadcast, keys of the store, and calls that no recorder has.

Invariants:
    python_calls.P1. A call is one only if the innermost Python frame of its thread is in the function, or for those
        that all ranks go through together in what they call of torch.distributed: what a thread has posted and does
        not wait for is none.
    python_calls.P2. A peer is given only if it is a rank of the group; else it is not known.
    python_calls.P3. Of a wait for a message that was posted before (`irecv`, `isend`) no frame has the peer any more:
        it is known in a job of two ranks, and else where gloo's memory says it (`gloo_pairs`).

Source: torch/distributed/distributed_c10d.py (2.13).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.collectives.c_calls import MethodCall, MethodCalls
from livedbg.adapters.pytorch.collectives.gloo_pairs import GlooPairs, rank_of_all
from livedbg.adapters.pytorch.collectives.groups import WORLD, Groups
from livedbg.adapters.pytorch.rpc.frames import RpcThread, rpc_threads
from livedbg.cpython.frame_locals import FrameLocals
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread, ThreadReader

INIT: Final = "init_process_group"

STORE: Final = "store"
"""Name of the call of who waits for keys of a store."""

WORK: Final = "work"
"""Name of the call of who waits for something that was posted before."""

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

_STORE_WAITS: Final = ("get", "wait", "multi_get", "queue_pop")
"""Methods of c10d.Store that return only once their keys are set."""

_INSIDE: Final = "/torch/distributed/"
_DEPTH: Final = 24
_MOST_KEYS: Final = 64


class PythonCall(Struct, frozen=True, kw_only=True):
    """One call.

    Attributes:
        ident: pthread_self(3) of its thread.
        name: of the function.
        group: the group's name.
        peer: global rank of who sends, receives, or is the root; None where there is none, or it is not known.
        tag: of a message; None where it is not known.
        objects: addresses of its variables' values: another call of the same function has others.
        keys: of the store, that it waits for.
    """

    ident: int
    name: str
    group: str
    peer: int | None
    tag: int | None
    objects: tuple[int, ...]
    keys: tuple[str, ...] = ()


class CallReader:
    """Reads the calls of one process; not for long, since it remembers code objects.

    Args:
        reader: reads the threads of the process.
    """

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._heap = HeapReader(reader.objects)
        self._locals = FrameLocals(self._heap)
        self._methods = MethodCalls(self._heap)
        self._pairs: GlooPairs | None = None

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
        known = _frames(threads)
        inside = {thread.ident for thread, _ in known}
        methods = self._methods.of([thread for thread in threads if thread.ident not in inside])
        return (
            *(self._call(thread, frame, groups) for thread, frame in known if not self._of_some(frame)),
            *(one for ident, call in methods.items() if (one := self._wait(ident, call, groups)) is not None),
        )

    def rpc(self, threads: list[PyThread]) -> tuple[RpcThread, ...]:
        """What the threads do of torch.distributed.rpc.

        Raises:
            OSError: not readable.
        """
        return rpc_threads(self._heap, self._locals, threads, self._methods.of(threads))

    def _wait(self, ident: int, call: MethodCall, groups: Groups) -> PythonCall | None:
        found = method_wait(ident, call, groups)
        if found is None:
            return None
        if found.name == WORK:
            peer = found.peer if found.peer is not None else self._posted_with(call.words[1], groups)
            return structs.replace(found, peer=peer)
        return structs.replace(found, keys=self._keys(call.words[2]) if len(call.words) > 2 else ())

    def _posted_with(self, work: int, groups: Groups) -> int | None:
        """The rank that something posted is from or for; None where it can't be told."""
        if self._pairs is None:
            self._pairs = GlooPairs(self._heap.pid)
        found = self._pairs.peer(work)
        return rank_of_all(groups.ranks, groups.rank, found) if found is not None else None

    def _keys(self, argument: int) -> tuple[str, ...]:
        if self._heap.type_name(argument) == "str":
            return (self._heap.objects.text(argument),)
        items = self._heap.items(argument, _MOST_KEYS)
        return tuple(self._heap.objects.text(item) for item in items if self._heap.type_name(item) == "str")

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


def method_wait(ident: int, call: MethodCall, groups: Groups) -> PythonCall | None:
    """The wait for keys of a store, or for something that was posted, that a method call is; None for others.

    Args:
        ident: pthread_self(3) of its thread.
        call: what its innermost frame calls.
        groups: of the process.
    """
    if call.owner.endswith("Store") and call.method in _STORE_WAITS:
        return PythonCall(ident=ident, name=STORE, group=WORLD, peer=None, tag=None, objects=call.words)
    if call.owner == "Work" and call.method == "wait":
        everybody = groups.ranks.get(WORLD, ())
        others = [rank for rank in everybody if rank != groups.rank] if groups.rank in everybody else []
        peer = others[0] if len(others) == 1 else None  # P3
        return PythonCall(ident=ident, name=WORK, group=WORLD, peer=peer, tag=None, objects=call.words)
    return None


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
