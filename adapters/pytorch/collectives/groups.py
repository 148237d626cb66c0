"""Read the ranks of process groups from `torch.distributed`'s own tables in the interpreter's memory.

The Flight Recorder of gloo lacks the ranks of its groups. `torch.distributed.distributed_c10d` has them: `_pg_names`
and `_pg_group_ranks`, both dicts keyed by the group (torch 2.13, distributed_c10d.py). A group is a pybind11 object
that points to a c10d::ProcessGroup, which has its own rank and its size next to each other (`rank_`, `size_`,
torch/csrc/distributed/c10d/ProcessGroup.hpp). Their offset is found by plausibility: the one place, the same in all
groups, at which the size is that of the table.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.loop_modules import module_variables
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import memory
from livedbg.linux.abi import native_abi
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import ReadOnce
from livedbg.linux.maps import parse_maps

_LIBRARY: Final = "/libtorch_cpu.so"
_MODULE: Final = "torch.distributed.distributed_c10d"
_NAMES: Final = "_pg_names"
_RANKS: Final = "_pg_group_ranks"
_MOST_RANKS: Final = 1 << 17
_symbols: defaultdict[tuple[str, ...], ReadOnce[dict[str, int]]] = defaultdict(ReadOnce)
"""Addresses in libraries, by what was looked for."""

_VALUE_AT: Final = 16  # of a pybind11 instance: the pointer to its C++ object (detail/common.h, struct instance)
_COUNTED: Final = 16  # bytes of a c10::intrusive_ptr_target before it: a table of functions, two counts of references
_HEAD: Final = 96  # bytes of a c10d::ProcessGroup in which rank and size are
WORLD: Final = "0"
"""Name of the first group of all."""


class Groups(Struct, frozen=True):
    """The process groups of one process.

    Attributes:
        ranks: global ranks by group name, in group order.
        rank: the global rank of the process; None if not known.
        objects: group names by the address of their Python objects.
    """

    ranks: Mapping[str, tuple[int, ...]] = {}
    rank: int | None = None
    objects: Mapping[int, str] = {}


def read_groups(reader: ThreadReader) -> Groups:
    """Return a process's process groups, none if unreadable; OSError if it is gone or changes too fast."""
    heap = HeapReader(reader.objects)
    for state in reader.interpreters():
        found = module_variables(heap, state, _MODULE, {_NAMES, _RANKS})
        if len(found) == 2:
            return _groups(heap, found[_NAMES], found[_RANKS])
    return Groups()


def rank_in_memory(pid: int) -> int | None:
    """Return the global rank in torch.distributed, None if unreadable; OSError if it is gone or changes too fast."""
    uses = any(mapping.path.endswith(_LIBRARY) for mapping in parse_maps(pid))
    reader = thread_reader(pid) if uses else None
    return read_groups(reader).rank if reader is not None else None


def library_symbols(pid: int, names: tuple[str, ...]) -> dict[str, int]:
    """Return where symbols of libtorch_cpu are in a process, as far as known; OSError if it can't be read."""
    mappings = [mapping for mapping in parse_maps(pid) if mapping.path.endswith(_LIBRARY)]
    placed = _symbols[names].of(pid, mappings, partial(_addresses, names)) if mappings else None
    bias, found = placed or (0, {})
    return {name: bias + address for name, address in found.items()}


def _addresses(names: tuple[str, ...], elf: ElfFile) -> dict[str, int]:
    return {name: symbol.address for name, symbol in defined_symbols(elf, names).items()}


def tid_of(pid: int, own: int) -> int | None:
    """Return our tid of a pthread_self(3) of a process, by glibc's thread descriptor; None if not known."""
    abi = native_abi()
    if abi is None or abi.descriptor_tid is None:
        return None
    try:
        return int.from_bytes(memory.read(pid, own + abi.descriptor_tid, 4), "little")
    except (OSError, OverflowError):
        return None


def thread_reader(pid: int) -> ThreadReader | None:
    """Return a reader of a process's known interpreter, or None; raise OSError if the process can't be read."""
    found = find_interpreter(pid)
    known = found is not None and found.layout is not None and found.runtime is not None
    return ThreadReader(pid, found) if found is not None and known else None


def _groups(heap: HeapReader, names: int, ranks: int) -> Groups:
    if heap.type_name(names) != "dict" or heap.type_name(ranks) != "dict":
        return Groups()
    named = {group: heap.name(name) for group, name in heap.dict_items(names)}
    found = {}
    heads = {}
    objects = {}
    for group, members in heap.dict_items(ranks):
        name = named.get(group, "")
        if not name or heap.type_name(members) != "dict":
            continue
        pairs = [(heap.integer(key), heap.integer(value)) for key, value in heap.dict_items(members, _MOST_RANKS)]
        numbers = {place: number for number, place in pairs if number is not None and place is not None}
        if numbers and sorted(numbers) == list(range(len(pairs))):
            found[name] = tuple(numbers[place] for place in sorted(numbers))
            heads[name] = _head(heap, group)
            objects[group] = name
    return Groups(found, own_rank(found, heads), objects)


def _head(heap: HeapReader, group: int) -> bytes:
    """Return the first bytes of a group's C++ object; b"" if there is none (the process is not in the group)."""
    try:
        (value,) = heap.words(group + _VALUE_AT, 1)
        return memory.read(heap.pid, value, _HEAD)
    except (OSError, OverflowError):
        return b""


def own_rank(groups: Mapping[str, tuple[int, ...]], heads: Mapping[str, bytes]) -> int | None:
    """Return the global rank that the heads of all groups' C++ objects agree on; None without the world group."""
    if WORLD not in groups:
        return None
    said = set()
    for at in range(_COUNTED, _HEAD - 8, 4):
        ranks = set()
        for name, head in heads.items():
            if len(head) == _HEAD:
                own, size = struct.unpack_from("<ii", head, at)
                ranks.add(groups[name][own] if size == len(groups[name]) and 0 <= own < size else None)
        if len(ranks) == 1:
            said |= ranks
    said.discard(None)
    return next(iter(said)) if len(said) == 1 else None
