"""Finds the caller of a function that has no unwind tables, or whose tables can't say it.

The frame's depth follows from the function's code (livedbg.unwind.code_heights), so the stack slot of the return
address is known. It is not searched for: what earlier calls left on a stack looks like a live return address. Where the
start of the function is not known, the call instruction names it; then code and stack have to agree.

Invariants:
    callers.C1. A caller is given only where its return address is directly behind a call.
    callers.C2. What earlier calls left on the stack is no caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import symbol_at
from livedbg.unwind.code_heights import Depth, depth_at, follows_call, leads_to, usable
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.places import KnownFile, Places

_WORD: Final = 8
_CALL: Final = 7  # bytes of the longest call
_PAGE: Final = 4096
_BEGINS: Final = b"\x55\x48\x89\xe5"  # push %rbp; mov %rsp, %rbp
_SEARCHED: Final = 8 << 10  # bytes of stack
_TRIED: Final = 16  # calls that may have led to a place
_FAR: Final = 64 << 10  # bytes of code between the beginning of a function and a place in it


class Caller(NamedTuple):
    """The registers behind a call; the frame pointer is None if it is not known."""

    pc: int
    sp: int
    frame_pointer: int | None


class Callers:
    """Finds callers in one process.

    Args:
        pid: the process whose code is read.
        places: what is known of the files, shared by all processes.
        stack: reads the copied stacks; raises LookupError for what was not copied.
    """

    def __init__(self, pid: int, modules: Modules, places: Places, stack: Callable[[int, int], bytes]) -> None:
        self._pid = pid
        self._modules = modules
        self._places = places
        self._stack = stack
        self._tables: dict[int, bool | None] = {}
        self._files: dict[Module, KnownFile] = {}
        self._page = lru_cache(maxsize=1 << 8)(self._page_at)

    def has_tables(self, pc: int) -> bool | None:
        """Return whether the code at an address has unwind tables; None if that isn't known."""
        if pc not in self._tables:
            self._tables[pc] = self._has_tables(pc)
        return self._tables[pc]

    def may_have_called(self, behind: int, pc: int) -> bool:
        """Return whether an address is behind a call that can have led to `pc`, directly or by a jump of the callee."""
        if self._modules.mapping_at(behind) is None:
            return False
        is_call, target = follows_call(self._before(behind), behind)
        return is_call and (target is None or not usable() or leads_to(self._code, target, pc))

    def of(self, pc: int, inside: int, sp: int, frame_pointer: int | None, top: int) -> Caller | None:
        """Return the caller of a frame, or None if it isn't known for sure.

        Args:
            inside: an address within the instruction at `pc`.
            frame_pointer: None if it isn't known.
            top: the end of the copied part of the stack.
        """
        if not usable():
            return None
        for start, by_table in self._starts(inside):
            depth = self._depth(start, pc)
            if depth is None or (by_table and depth.frame_pointer is None):
                continue  # a table that asks for no frame pointer would have led on: a part that is jumped to
            if (caller := self._caller(depth, sp, frame_pointer)) is not None:
                return caller
        tried = 0
        for place, target in self._calls(sp, top):
            if abs(pc - target) >= _FAR:
                continue
            depth = self._depth(target, pc)
            if depth is not None and depth.return_address == place:
                return self._caller(depth, sp, frame_pointer)
            tried += 1
            if tried == _TRIED:
                break
        return None

    def _has_tables(self, pc: int) -> bool | None:
        module = self._modules.at(pc)
        if module is None:
            return False
        file = self._file(module)
        if file.debug_frames or not file.starts.known:
            return None
        return file.starts.at(pc - module.bias) is not None

    def _file(self, module: Module) -> KnownFile:
        if module not in self._files:
            self._files[module] = self._places.file_of(module)
        return self._files[module]

    def _starts(self, inside: int) -> Iterator[tuple[int, bool]]:
        module = self._modules.at(inside)
        if module is None:
            code = self._code_before(inside)
            place = code.rfind(_BEGINS)
            if place >= 0:
                yield inside - len(code) + place, False
            return
        start = self._file(module).starts.at(inside - module.bias)
        if start is not None:
            yield start + module.bias, True
        symbol = self._symbol(module, inside - module.bias)
        if symbol is not None:
            yield symbol + module.bias, False

    def _symbol(self, module: Module, at: int) -> int | None:
        for file in self._file(module).tables:
            try:
                with ElfFile(file) as elf:
                    found = symbol_at(elf, at)
            except (OSError, ElfError):
                continue
            if found is not None and ".cold" not in found.name:  # a part that is jumped to
                return found.address
        return None

    def _caller(self, depth: Depth, sp: int, frame_pointer: int | None) -> Caller | None:
        """Return the caller whose return address is at a depth of the stack; None if there is none (C1)."""
        pc = self._word(sp + depth.return_address)
        if pc is None or self._modules.mapping_at(pc) is None or not follows_call(self._before(pc), pc)[0]:
            return None
        if depth.saved_frame_pointer is not None:
            frame_pointer = self._word(sp + depth.saved_frame_pointer)
        elif not depth.kept:
            frame_pointer = None
        return Caller(pc, sp + depth.return_address + _WORD, frame_pointer)

    def _calls(self, sp: int, top: int) -> Iterator[tuple[int, int]]:
        try:
            data = self._stack(sp, min(_SEARCHED, max(0, top - sp)))
        except LookupError:
            return
        for place in range(0, len(data) - _WORD + 1, _WORD):
            (word,) = struct.unpack_from("<Q", data, place)
            if self._modules.mapping_at(word) is not None:
                _, target = follows_call(self._before(word), word)
                if target is not None:
                    yield place, target

    def _word(self, address: int) -> int | None:
        try:
            return int.from_bytes(self._stack(address, _WORD), "little")
        except LookupError:
            return None

    def _before(self, pc: int) -> bytes:
        return self._code(pc - _CALL, _CALL)

    def _code_before(self, address: int) -> bytes:
        mapping = self._modules.mapping_at(address)
        low = address if mapping is None else max(mapping.start, address - _PAGE)
        return self._code(low, address - low)

    def _depth(self, start: int, pc: int) -> Depth | None:
        """Return the depth at an instruction of a function; for files it is computed once for all processes."""
        module = self._modules.at(start)
        if module is None:
            return depth_at(self._code, start, pc)
        known, key = self._file(module).depths, (start - module.bias, pc - module.bias)
        if key not in known:
            known[key] = depth_at(self._code, start, pc)
        return known[key]

    def _code(self, address: int, size: int) -> bytes:
        page, place = divmod(address, _PAGE)
        data = self._page(page)[place : place + size]
        if data and place + size > _PAGE:
            data += self._page(page + 1)[: place + size - _PAGE]
        return data

    def _page_at(self, number: int) -> bytes:
        try:
            return memory.read(self._pid, number * _PAGE, _PAGE)
        except (OSError, OverflowError):
            return b""
