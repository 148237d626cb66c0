"""The threads of a process as glibc lists them, and their thread-specific data (pthread_getspecific), read from memory.

libc itself describes its fields for debuggers: descriptors `_thread_db_*` of size in bits, number of elements and
offset (glibc nptl_db/structs.def, db_info.c; all in libc.so.6 since 2.34). The list of threads is
`_rtld_global._dl_stack_used` of the dynamic linker (nptl_db/td_ta_thr_iter.c does the same through ptrace).

PID namespaces: glibc stores in its locks the gettid() of the process's own PID namespace; the last number of `NSpid:`
in `status` is that one (proc_pid_status(5)).

Invariants:
    pthreads.P1. Nothing is stopped: threads start and end meanwhile. A thread counts only if its descriptor's tid is
        that of a live thread, and its value only if the key was set in that thread (its sequence number is not 0).
    pthreads.P2. The list is walked for at most _MOST threads; a cycle in it ends the walk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies
from livedbg.linux.procfs import process_ids, status_fields, thread_ids


def pid_namespace(pid: int) -> int | None:
    """Return the inode of the PID namespace of a process; None if not visible."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def same_namespace(pid: int) -> bool:
    """Return whether a process has our thread numbers (assumed if not visible)."""
    theirs = pid_namespace(pid)
    return theirs is None or theirs == Path("/proc/self/ns/pid").stat().st_ino


def inner_tids(pid: int, tids: Iterable[int]) -> dict[int, int]:
    """Return inner tid -> our tid, for threads of a process in another PID namespace."""
    found = {}
    for tid in tids:
        try:
            numbers = status_fields(pid, tid).get("NSpid", "").split()
        except OSError:
            continue
        if numbers:
            found[int(numbers[-1])] = tid
    return found


def owner_elsewhere(inner: int, namespace: int | None) -> tuple[int, int] | None:
    """Return the thread that another process's namespace (None: ours) calls `inner`, as (pid, tid) of ours, or None."""
    if namespace is None:
        try:
            pid = int(status_fields(inner)["Tgid"])  # /proc/TID is there for every thread, though not listed
        except (OSError, KeyError, ValueError):
            return None
        return pid, inner
    for pid in process_ids():
        if pid == os.getpid() or pid_namespace(pid) != namespace:
            continue
        try:
            tids = thread_ids(pid)
        except OSError:
            continue
        tid = inner_tids(pid, tids).get(inner)
        if tid is not None:
            return pid, tid
    return None


_MOST: Final = 65_536
_FIELDS: Final = {
    "list": "_thread_db_pthread_list",
    "tid": "_thread_db_pthread_tid",
    "specific": "_thread_db_pthread_specific",
    "block": "_thread_db_pthread_key_data_level2_data",
    "seq": "_thread_db_pthread_key_data_seq",
    "data": "_thread_db_pthread_key_data_data",
    "next": "_thread_db_list_t_next",
    "used": "_thread_db_rtld_global__dl_stack_used",
}
_SIZE: Final = "_thread_db_sizeof_pthread_key_data"
_GLOBAL: Final = "_rtld_global"
_POINTER: Final = 8
_FIELD: Final = struct.Struct("=3I")


class _Place(NamedTuple):
    """A field: the size of it or of an element, the number of elements, and the offset."""

    size: int
    elements: int
    offset: int


class ThreadData:
    """Thread-specific data of a process's threads; empty unless `known`: the C library describes its fields."""

    def __init__(self, pid: int, mappings: Sequence[Mapping]) -> None:
        self._pid = pid
        self._places: dict[str, _Place] = {}
        self._entry = 0
        self._head = 0
        try:
            self._read_libc(_files(mappings, "libc.so", "libc-"))
            self._find_list(_files(mappings, "ld-linux", "ld-2", "ld64.so"))
        except (OSError, ElfError, ValueError):
            self._head = 0
        self.known = bool(self._head and self._entry and len(self._places) == len(_FIELDS))

    def values(self, keys: Collection[int]) -> dict[int, dict[int, int]]:
        """Return by tid the values of the keys that are set in that thread.

        Raises:
            PermissionError, ProcessLookupError: its memory can't be read (any more).
        """
        if not self.known:
            return {}
        threads = self._threads()
        found: dict[int, dict[int, int]] = {tid: {} for tid in threads}
        for key in keys:
            for tid, value in self._value(threads, key):
                found[tid][key] = value
        return {tid: values for tid, values in found.items() if values}

    # layout

    def _read_libc(self, mappings: list[Mapping]) -> None:
        with ElfFile(mapped_file(self._pid, mappings[0])) as elf:
            symbols = defined_symbols(elf, [*_FIELDS.values(), _SIZE])
            for name, symbol in _FIELDS.items():
                if symbol in symbols and len(data := elf.initial(symbols[symbol].address, _FIELD.size)) == _FIELD.size:
                    bits, elements, offset = _FIELD.unpack(data)
                    self._places[name] = _Place(bits // 8, elements, offset)
            if _SIZE in symbols:
                self._entry = int.from_bytes(elf.initial(symbols[_SIZE].address, 4), "little")

    def _find_list(self, mappings: list[Mapping]) -> None:
        with ElfFile(mapped_file(self._pid, mappings[0])) as elf:
            symbol = defined_symbols(elf, [_GLOBAL]).get(_GLOBAL)
            bias = elf.load_bias(copies(mappings)[0])
        if symbol is not None and bias is not None and "used" in self._places:
            self._head = bias + symbol.address + self._places["used"].offset

    # threads

    def _threads(self) -> dict[int, int]:
        tids = thread_ids(self._pid)
        alive = {tid: tid for tid in tids} if same_namespace(self._pid) else inner_tids(self._pid, tids)
        found: dict[int, int] = {}
        node, seen = self._head, {self._head}
        for _ in range(_MOST):
            node = self._word(node + self._places["next"].offset)
            if not node or node in seen:
                break
            seen.add(node)
            descriptor = node - self._places["list"].offset
            data = memory.read_many(self._pid, [(descriptor + self._places["tid"].offset, 4)])[0]
            tid = alive.get(int.from_bytes(data or b"", "little"))
            if tid is not None:
                found[tid] = descriptor
        return found

    def _value(self, threads: dict[int, int], key: int) -> list[tuple[int, int]]:
        block, index = divmod(key, max(1, self._places["block"].elements))
        if not 0 <= block < self._places["specific"].size // _POINTER:
            return []
        at = self._places["specific"].offset + _POINTER * block
        pointers = memory.read_many(self._pid, [(descriptor + at, _POINTER) for descriptor in threads.values()])
        blocks = {
            tid: int.from_bytes(pointer, "little") + index * self._entry
            for tid, pointer in zip(threads, pointers, strict=True)
            if pointer is not None and any(pointer)
        }
        entries = memory.read_many(self._pid, [(address, self._entry) for address in blocks.values()])
        seq, data = self._places["seq"].offset, self._places["data"].offset
        return [
            (tid, int.from_bytes(entry[data : data + 8], "little"))
            for tid, entry in zip(blocks, entries, strict=True)
            if entry is not None and any(entry[seq : seq + 8])
        ]

    def _word(self, address: int) -> int:
        return int.from_bytes(memory.read_many(self._pid, [(address, _POINTER)])[0] or b"", "little")


def _files(mappings: Sequence[Mapping], *beginnings: str) -> list[Mapping]:
    """Return the mappings of the first file whose name has such a beginning.

    Raises:
        ValueError: there is none.
    """
    first = next((m for m in mappings if m.path.rpartition("/")[2].startswith(beginnings)), None)
    if first is None:
        raise ValueError(f"no {beginnings[0]}")
    return [m for m in mappings if (m.path, m.device, m.inode) == (first.path, first.device, first.inode)]
