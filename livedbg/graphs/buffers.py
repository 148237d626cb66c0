"""Which arguments speak of the same memory: external tensors by address, the runtime's own by their creator.

A runtime uses the memory that it allocates again, and a graph names a tensor by its address: equal ids of two tasks
may be two tensors. They are taken for one only where that is certain. The upper 32 bits of a task's id are its ring,
the lower ones its number in the ring.

Invariants:
    graphs_buffers.B1. External memory is never the runtime's: a buffer is external when a task of an auto scope names
        it and no predecessor of that task can have created it, or when it is named before anything was allocated.
    graphs_buffers.B2. Two arguments of another buffer are the same tensor when the same task created both, or when
        nothing was allocated between them. A gap in a ring's numbers is an allocation, which takes a number.
"""

from __future__ import annotations

from itertools import accumulate

from msgspec import Struct

from livedbg.graphs.accesses import Access, unit_of
from livedbg.graphs.declared import DeclaredTask, TaskGraph


class _Cluster(Struct, frozen=True):
    """External buffers that overlap in memory: the address that their regions are counted from."""

    address: int


class Buffers:
    """Whose memory the arguments of one graph are.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._places = {raw: place for place, raw in enumerate(graph.tasks)}
        self._creators = {(edge.succ, edge.arg): edge.pred for edge in graph.dependencies if edge.source == "creator"}
        self._makers = {
            raw for raw, task in graph.tasks.items() if not task.args or any(arg.type == "OUTPUT" for arg in task.args)
        }
        self._made = [0, *accumulate(int(raw in self._makers) for raw in graph.tasks)]
        self._gaps = self._find_gaps()
        self._external = self._find_external()
        self._clusters = self._find_clusters()
        self.tracked = {(edge.succ, edge.tensor_id) for edge in graph.dependencies if edge.source == "tensormap"}
        """Tasks and tensors of which the runtime has looked an earlier writer up."""

    def address_of(self, tensor: int) -> int | None:
        """Where a tensor's buffer begins; None where the file doesn't say."""
        known = self._graph.tensors.get(tensor)
        return known.buffer_addr if known is not None and known.buffer_addr else None

    def key_of(self, tensor: int) -> tuple[str, int]:
        """What all arguments of the same memory (at some time) have in common."""
        address = self.address_of(tensor)
        if address is None:
            return "tensor", tensor
        return "memory", self._clusters.get(address, _Cluster(address)).address

    def base_of(self, tensor: int) -> int:
        """Where the tensor's buffer begins in the memory of its key."""
        address = self.address_of(tensor)
        return 0 if address is None else address - self.key_of(tensor)[1]

    def is_external(self, tensor: int) -> bool:
        """Whether it is certainly not the runtime's memory."""
        address = self.address_of(tensor)
        return ("tensor", tensor) in self._external if address is None else ("memory", address) in self._external

    def creator_of(self, task: DeclaredTask, access: Access) -> int | None:
        """Who made the tensor, where that is certain."""
        return self._creators.get((task.raw, access.idx))

    def same(self, first: tuple[DeclaredTask, Access], second: tuple[DeclaredTask, Access]) -> bool:
        """Whether two arguments of one key certainly are the same tensor (B1, B2)."""
        tensors = first[1].tensor_id, second[1].tensor_id
        if all(tensor is not None and self.is_external(tensor) for tensor in tensors):
            return True
        makers = self.creator_of(*first), self.creator_of(*second)
        if makers[0] is not None and makers[1] is not None:
            return makers[0] == makers[1]
        low, high = self._places[first[0].raw], self._places[second[0].raw]
        return self._gaps[high + 1] == self._gaps[low + 1] and self._made[high] == self._made[low + 1]

    def _find_gaps(self) -> list[int]:
        """For each place how many places up to the one before it have, or may have, an allocation before them."""
        places = len(self._graph.tasks)
        change = [0] * (places + 1)
        newest: dict[int, tuple[int, int]] = {}
        for place, raw in enumerate(self._graph.tasks):
            ring, local = raw >> 32, raw & 0xFFFFFFFF
            known, since = newest.get(ring, (-1, -1))
            if local > known + 1:
                change[since + 1] += 1
                change[place + 1] -= 1
            newest[ring] = (max(local, known), place)
        for raw in {edge.pred for edge in self._graph.dependencies} - self._places.keys():
            known, since = newest.get(raw >> 32, (-1, -1))
            if raw & 0xFFFFFFFF > known:
                change[since + 1] += 1
        return [0, *accumulate(int(count > 0) for count in list(accumulate(change))[:places])]

    def _find_external(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        internal: set[tuple[str, int]] = set()
        for place, (raw, task) in enumerate(self._graph.tasks.items()):
            for access in task.args:
                if access.tensor_id is None:
                    continue
                address = self.address_of(access.tensor_id)
                key = ("tensor", access.tensor_id) if address is None else ("memory", address)
                if (raw, access.idx) in self._creators:
                    internal.add(key)
                elif not (self._gaps[place + 1] or self._made[place]) or not (
                    task.manual or self._possible_makers(raw)
                ):
                    found.add(key)
        return found - internal

    def _possible_makers(self, raw: int) -> bool:
        return any(pred in self._makers or pred not in self._places for pred in self._graph.predecessors.get(raw, ()))

    def _find_clusters(self) -> dict[int, _Cluster]:
        """External buffers whose bytes overlap, by address."""
        spans = sorted(
            (tensor.buffer_addr, tensor.buffer_addr + max(1, tensor.buffer_numel * unit_of(tensor.dtype)))
            for tensor in self._graph.tensors.values()
            if tensor.buffer_addr and self.is_external(tensor.tensor_id)
        )
        found: dict[int, _Cluster] = {}
        begin = reach = -1
        for low, high in spans:
            if low >= reach:
                begin = low
            reach = max(reach, high)
            found[low] = _Cluster(begin)
        return found
