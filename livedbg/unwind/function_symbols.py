"""Which symbols the code of an ELF file has where: for functions without debug information.

Invariants:
    function_symbols.F1. An address has the name of a function that reaches over it. One without a size, as assembler
        writes them, reaches as far as the next symbol, and `_UNSIZED` bytes at most.
    function_symbols.F2. What was asked of a file once is not read again; what is kept is bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Hashable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import FunctionSymbol, code_symbols, symbol_name
from livedbg.unwind.go_functions import go_functions_at
from livedbg.unwind.packed_symbols import packed_symbols

__all__ = ["FunctionSymbols", "functions_at"]

_UNSIZED: Final = 256
_MOST: Final = 1 << 16  # addresses that are remembered
_GLOBAL, _WEAK = 1, 2  # STB_ of elf(5)


class _Rank(NamedTuple):
    """How well a symbol names an address: the largest is chosen.

    Attributes:
        plain: how few underscores the name begins with, as a negative number: `read` and not `__read`.
    """

    sized: bool
    start: int
    plain: int
    binding: int
    short: int


def functions_at(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """The symbols of the functions that addresses lie in, by address; those that lie in none are left out.

    Args:
        file: the file.
        addresses: relative to the load bias.

    Raises:
        ElfError: the file is cut short.
    """
    wanted = sorted(addresses)
    best: dict[int, tuple[_Rank, str]] = {}
    nearest: dict[int, int] = {}
    for symbol in code_symbols(file, wanted, _UNSIZED):
        reach = symbol.size or (_UNSIZED if symbol.complete else 0)
        place = bisect_left(wanted, symbol.address)
        rank: _Rank | None = None
        name = ""
        while place < len(wanted) and (address := wanted[place]) < symbol.address + max(reach, _UNSIZED):
            nearest[address] = max(nearest.get(address, 0), symbol.address)
            if address < symbol.address + reach:
                if rank is None:
                    name = symbol_name(file, symbol)
                    rank = _rank(symbol, name)
                if name and not name.startswith("$") and (address not in best or best[address][0] < rank):
                    best[address] = rank, name
            place += 1
    return {at: name for at, (rank, name) in best.items() if rank.sized or rank.start == nearest[at]}


def _rank(symbol: FunctionSymbol, name: str) -> _Rank:
    underscores = len(name) - len(name.lstrip("_"))
    plain = 0 if name.startswith(("_Z", "_R")) else -underscores
    binding = {_GLOBAL: 2, _WEAK: 1}.get(symbol.binding, 0)
    return _Rank(symbol.size > 0, symbol.address, plain, binding, -len(name))


def _named(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """The same as `functions_at`, with what a stripped file has packed, or has for Go's runtime."""
    names = functions_at(file, addresses)
    with packed_symbols(file) if len(names) < len(addresses) else nullcontext() as inner:
        if inner is not None:
            with suppress(ElfError):
                names |= functions_at(inner, [at for at in addresses if at not in names])
    if len(names) < len(addresses):
        with suppress(ElfError):
            names |= go_functions_at(file, [at for at in addresses if at not in names])
    return names


class FunctionSymbols:
    """The symbols of functions of files, remembered."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Hashable, int], str | None] = OrderedDict()

    def at(self, key: Hashable, files: Collection[Path], addresses: Collection[int]) -> dict[int, str]:
        """The symbols at some addresses of a file, by address.

        Args:
            key: what the file's content is known by.
            files: where its symbols are, the best first.
            addresses: relative to the load bias.
        """
        found = {at: self._known[key, at] for at in addresses if (key, at) in self._known}
        missing = {at for at in addresses if at not in found}
        for file in files if missing else ():
            try:
                with ElfFile(file) as elf:
                    names = _named(elf, missing)
            except (OSError, ElfError):
                continue
            found |= names
            missing -= names.keys()
        for at in addresses:
            self._known[key, at] = found.get(at)
            self._known.move_to_end((key, at))
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return {at: name for at, name in found.items() if name is not None}
