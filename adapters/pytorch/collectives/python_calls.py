"""Read from Python frames in memory what threads call of torch.distributed: the peer of a send or recv, the root of a
broadcast, keys of the store, and calls that no recorder has.

The peer of a posted message (`irecv`, `isend`) is read from gloo's own lists. The Work is a
c10d::ProcessGroupGloo::RecvWork or SendWork. It has a gloo::transport::tcp::UnboundBuffer, which has the context of its
group, which has a Pair for each other rank, by rank. A pair has lists of the buffers that wait to be received into or
sent (gloo/transport/tcp/{unbound_buffer,context,pair}.h, as of torch 2.13). Objects are identified by their vtable
pointer, whose address is an exported symbol; nothing is taken from an offset alone.

Invariants:
    python_calls.P1. A call counts only if the innermost Python frame of its thread is in the function, or, for those
        that all ranks go through together, in its callees inside torch.distributed: what a thread has posted and does
        not wait for doesn't count.
    python_calls.P2. A peer is given only if it is a rank of the group; else it is not known.
    python_calls.P3. While a thread waits for a posted message (`irecv`, `isend`) no frame has the peer any more: it is
        known in a job of two ranks, and else if gloo's memory has it (`gloo_pairs`).
    python_calls.G1. A rank is given only if the list of its pair, and of no other, has that very buffer.
    python_calls.G2. Nothing is read beyond the end of a Work: the next one in memory is of another message.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.collectives.c_calls import MethodCall, MethodCalls
from livedbg.adapters.pytorch.collectives.groups import WORLD, Groups, library_symbols
from livedbg.adapters.pytorch.rpc.tasks import RpcThread, rpc_threads
from livedbg.cpython.call_frames import FrameLocals
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread, ThreadReader
from livedbg.linux import memory

_WORKS: Final = ("_ZTVN4c10d16ProcessGroupGloo8RecvWorkE", "_ZTVN4c10d16ProcessGroupGloo8SendWorkE")
_BUFFER: Final = "_ZTVN4gloo9transport3tcp13UnboundBufferE"
_CONTEXT: Final = "_ZTVN4gloo9transport3tcp7ContextE"
_PAIR: Final = "_ZTVN4gloo9transport3tcp4PairE"
_TO_FUNCTIONS: Final = 16  # what an object points to lies behind two words of the table (Itanium C++ ABI)
_VALUE_AT: Final = 16  # of a pybind11 instance: the pointer to its C++ object
_WORK: Final = 192  # bytes, not beyond its end (G2), with the buffer at 168
_BUFFER_HEAD: Final = 64  # the context is at 24
_CONTEXT_HEAD: Final = 128  # the pairs are at 56
_PAIR_HEAD: Final = 768  # the lists are at 584 and 640
_MOST_RANKS: Final = 1 << 12
_MOST_NODES: Final = 256
_NODE: Final = 96  # of a std::unordered_map: the next one, the key, and a std::deque of 80 bytes
_MOST_WAITING: Final = 512  # bytes of a deque's first block
_FULL: Final = struct.pack("<f", 1.0)  # a std::unordered_map's load factor, 32 bytes behind its start
_MOST: Final = 1 << 47
_LOAD_AT: Final = 32
_NAMES: Final = (*_WORKS, _BUFFER, _CONTEXT, _PAIR)


class GlooPairs:
    """Reads gloo's pairs of one process.

    Raises:
        OSError: the process is gone or not permitted.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tables = {name: at + _TO_FUNCTIONS for name, at in library_symbols(pid, _NAMES).items()}

    def peer(self, work: int) -> tuple[int, int, int] | None:
        """Return own rank, group size and peer's rank for a Work's Python object, or None; OSError if unreadable."""
        value = next(iter(self._words(work + _VALUE_AT, 1)), 0)
        if len(self._tables) < len(_NAMES) or not any(self._is(value, one) for one in _WORKS):
            return None
        buffers = self._pointers_to(value, _WORK, _BUFFER)
        if len(buffers) != 1:
            return None
        contexts = self._pointers_to(buffers[0], _BUFFER_HEAD, _CONTEXT)
        if len(contexts) != 1:
            return None
        rank, size = struct.unpack("<ii", memory.read(self._pid, contexts[0] + 8, 8))
        pairs = self._pairs(contexts[0], rank, size)
        having = [number for number, pair in pairs.items() if self._lists(pair, buffers[0])]
        return (rank, size, having[0]) if len(having) == 1 else None

    def _pairs(self, context: int, rank: int, size: int) -> dict[int, int]:
        """Return the pairs of a context by rank: a std::vector of pointers, as long as the group is."""
        if not 0 <= rank < size <= _MOST_RANKS:
            return {}
        words = self._words(context, _CONTEXT_HEAD // 8)
        for start, end in pairwise(words):
            if 0 < start < _MOST and end - start == 8 * size:
                pairs = self._words(start, size)
                if all(self._is(pair, _PAIR) for number, pair in enumerate(pairs) if number != rank):
                    return {number: pair for number, pair in enumerate(pairs) if number != rank}
        return {}

    def _lists(self, pair: int, buffer: int) -> bool:
        data = memory.read(self._pid, pair, _PAIR_HEAD)
        for at in range(0, len(data) - _LOAD_AT - 8, 8):
            if data[at + _LOAD_AT : at + _LOAD_AT + 4] != _FULL:
                continue
            first, count = struct.unpack_from("<QQ", data, at + 16)
            if any(buffer in self._waiting(node) for node in self._nodes(first, count)):
                return True
        return False

    def _nodes(self, node: int, count: int) -> Iterator[tuple[int, ...]]:
        for _ in range(min(count, _MOST_NODES)):
            words = self._words(node, _NODE // 8) if 0 < node < _MOST else ()
            if not words:
                return
            yield words
            node = words[0]

    def _waiting(self, node: tuple[int, ...]) -> tuple[int, ...]:
        """Return the words of a deque's operations, or of its first block."""
        current, block_end, end = node[4], node[6], node[8]
        end = end if current <= end <= block_end else block_end
        size = end - current
        return self._words(current, size // 8) if 0 < current < _MOST and 0 < size <= _MOST_WAITING else ()

    def _pointers_to(self, address: int, size: int, table: str) -> list[int]:
        """Return the objects of a class that an object points to, except itself; each once."""
        words = dict.fromkeys(self._words(address, size // 8))
        return [word for word in words if word != address and self._is(word, table)]

    def _is(self, address: int, table: str) -> bool:
        if not 0 < address < _MOST or address % 8:
            return False
        return self._words(address, 1) == (self._tables[table],)

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        """Return up to `count` words at an address; fewer if the memory ends."""
        while count:
            try:
                return struct.unpack(f"<{count}Q", memory.read(self._pid, address, 8 * count))
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise
            except OverflowError:
                return ()
            count //= 2
        return ()


def rank_of_all(ranks: Mapping[str, tuple[int, ...]], rank: int | None, found: tuple[int, int, int]) -> int | None:
    """Return the global rank of a peer; None if the possible groups do not agree.

    Args:
        ranks: of the process's groups.
        rank: its own global rank.
        found: own rank, size and peer's rank in the group.
    """
    own, size, other = found
    may = {members[other] for members in ranks.values() if len(members) == size and members[own] == rank}
    return may.pop() if rank is not None and len(may) == 1 else None


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
        peer: global rank of the sender, receiver or root; None for none or not known.
        tag: of a message; None if not known.
        objects: addresses of its variables' values: another call of the same function has others.
        keys: of the store, that it waits for.
        line: file and line of the innermost Python frame, of a method's call; None for others.
    """

    ident: int
    name: str
    group: str
    peer: int | None
    tag: int | None
    objects: tuple[int, ...]
    keys: tuple[str, ...] = ()
    line: tuple[str, int | None] | None = None


class CallReader:
    """Reads the calls of one process. Short-lived, since it caches code objects."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._heap = HeapReader(reader.objects)
        self._locals = FrameLocals(self._heap)
        self._methods = MethodCalls(self._heap)
        self._pairs: GlooPairs | None = None

    def threads(self) -> list[PyThread]:
        """Return the threads now; raise OSError if the process is gone or changes too fast."""
        return self._reader.threads()

    def unknown_group(self, threads: list[PyThread], groups: Groups) -> bool:
        """Return whether a thread calls something of an unknown group; raise OSError if memory is unreadable."""
        frames = [frame for _, frame in _frames(threads) if frame.code.name not in _TOGETHER]
        return any(self._group(frame, groups) is None for frame in frames)

    def joining(self, threads: list[PyThread]) -> tuple[int, int] | None:
        """Return rank and world size of a running `init_process_group` call, or None; OSError if unreadable."""
        for _, frame in _frames(threads):
            if frame.code.name == "init_process_group":
                rank, world = self._number(frame, "rank"), self._number(frame, "world_size")
                if rank is not None and world is not None and 0 <= rank < world:
                    return rank, world
        return None

    def calls(self, threads: list[PyThread], groups: Groups) -> tuple[PythonCall, ...]:
        """Return the calls of the threads; raise OSError if memory is unreadable."""
        known = _frames(threads)
        inside = {thread.ident for thread, _ in known}
        others = {thread.ident: thread for thread in threads if thread.ident not in inside}
        methods = self._methods.of(list(others.values()))
        return (
            *(self._call(thread, frame, groups) for thread, frame in known if not self._subgroup_only(frame)),
            *(
                structs.replace(one, line=_line(others[ident].frames[0]))
                for ident, call in methods.items()
                if (one := self._wait(ident, call, groups)) is not None
            ),
        )

    def rpc(self, threads: list[PyThread]) -> tuple[RpcThread, ...]:
        """Return the threads' activity in torch.distributed.rpc; raise OSError if memory is unreadable."""
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
        """Return the peer of a posted Work; None if not known."""
        if self._pairs is None:
            self._pairs = GlooPairs(self._heap.pid)
        found = self._pairs.peer(work)
        return rank_of_all(groups.ranks, groups.rank, found) if found is not None else None

    def _keys(self, argument: int) -> tuple[str, ...]:
        if self._heap.type_name(argument) == "str":
            return (self._heap.objects.text(argument),)
        items = self._heap.items(argument, _MOST_KEYS)
        return tuple(self._heap.objects.text(item) for item in items if self._heap.type_name(item) == "str")

    def _subgroup_only(self, frame: PyFrame) -> bool:
        """Return whether only the ranks of a new group have to call it."""
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
        at = self._locals.of(frame, {"group"}).get("group")
        if at is None or self._heap.type_name(at) == "NoneType":
            return WORLD if WORLD in groups.ranks else None
        return groups.objects.get(at)


def method_wait(ident: int, call: MethodCall, groups: Groups) -> PythonCall | None:
    """Return the wait of a thread (pthread_self(3)) for store keys or a posted operation, by its innermost call."""
    if call.owner.endswith("Store") and call.method in _STORE_WAITS:
        return PythonCall(ident=ident, name=STORE, group=WORLD, peer=None, tag=None, objects=call.words)
    if call.owner == "Work" and call.method == "wait":
        everybody = groups.ranks.get(WORLD, ())
        others = [rank for rank in everybody if rank != groups.rank] if groups.rank in everybody else []
        peer = others[0] if len(others) == 1 else None  # P3
        return PythonCall(ident=ident, name=WORK, group=WORLD, peer=peer, tag=None, objects=call.words)
    return None


def _line(frame: PyFrame) -> tuple[str, int | None]:
    return frame.code.file, frame.code.line(frame.offset)


def _frames(threads: list[PyThread]) -> list[tuple[PyThread, PyFrame]]:
    """Return the threads that are in one of the functions, with the frame there (P1)."""
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
