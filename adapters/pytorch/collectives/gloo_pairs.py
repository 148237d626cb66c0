"""Whom a message is for that was posted before (`irecv`, `isend`), from gloo's own lists in memory.

What waits is a c10d::ProcessGroupGloo::RecvWork or SendWork. It has a gloo::transport::tcp::UnboundBuffer, that has the
context of its group, and that has a Pair for each other rank, by its rank. A pair has lists of the buffers that wait to
be received into or sent (gloo/transport/tcp/{unbound_buffer,context,pair}.h, as torch 2.13 has them). Objects are told
by the table of virtual functions that they begin with, whose address is an exported symbol; nothing is taken from an
offset alone.

Invariants:
    gloo_pairs.G1. A rank is given only if the list of its pair, and of no other, has that very buffer.
    gloo_pairs.G2. Nothing is taken from beyond the end of a Work: the next one in memory is of another message.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from livedbg.linux import memory
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import ReadOnce
from livedbg.linux.maps import parse_maps

_LIBRARY: Final = "/libtorch_cpu.so"
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
_symbols: ReadOnce[dict[str, int]] = ReadOnce()
"""Addresses in libraries by device, inode and time of change."""

_NAMES: Final = (*_WORKS, _BUFFER, _CONTEXT, _PAIR)


class GlooPairs:
    """Reads one process.

    Args:
        pid: the process.

    Raises:
        OSError: gone, or not allowed.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tables = _tables(pid)

    def peer(self, work: int) -> tuple[int, int, int] | None:
        """Of the Python object of a Work: own rank in its group, how many ranks that has, and the rank there of the
        other one; None where it can't be told.

        Raises:
            OSError: not readable.
        """
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
        """The pairs of a context by their ranks: a std::vector of pointers, as long as the group is."""
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
        """Whether a pair has a buffer in a list of those that wait."""
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
        """The words of the operations in a deque; of one that is longer than a block, those of its first block."""
        current, block_end, end = node[4], node[6], node[8]
        end = end if current <= end <= block_end else block_end
        size = end - current
        return self._words(current, size // 8) if 0 < current < _MOST and 0 < size <= _MOST_WAITING else ()

    def _pointers_to(self, address: int, size: int, table: str) -> list[int]:
        """The objects of a class that an object points to, but for itself; each once."""
        words = dict.fromkeys(self._words(address, size // 8))
        return [word for word in words if word != address and self._is(word, table)]

    def _is(self, address: int, table: str) -> bool:
        if not 0 < address < _MOST or address % 8:
            return False
        return self._words(address, 1) == (self._tables[table],)

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        """The words from an address on; fewer where the memory ends, none where nothing is there."""
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
    """The global rank of the other one; None where the groups that it may be in do not agree.

    Args:
        ranks: of the process's groups.
        rank: its own global rank.
        found: own rank in the group, the group's size, and the rank there of the other one.
    """
    own, size, other = found
    may = {members[other] for members in ranks.values() if len(members) == size and members[own] == rank}
    return may.pop() if rank is not None and len(may) == 1 else None


def _tables(pid: int) -> dict[str, int]:
    """Where objects of each class point to, by the class; {} where that is not known."""
    mappings = [mapping for mapping in parse_maps(pid) if mapping.path.endswith(_LIBRARY)]
    if not mappings:
        return {}
    placed = _symbols.of(pid, mappings, _addresses)
    if placed is None:
        return {}
    bias, found = placed
    return {name: bias + at + _TO_FUNCTIONS for name, at in found.items()}


def _addresses(elf: ElfFile) -> dict[str, int]:
    return {name: symbol.address for name, symbol in defined_symbols(elf, _NAMES).items()}
