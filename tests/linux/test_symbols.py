"""Symbol tables of ELF files: by name, by address, and what is left of damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols, symbol_at

SECTION = struct.Struct("<IIQQQQIIQQ")
TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM


@pytest.fixture(scope="module")
def program(build_target: Callable[..., Path]) -> Path:
    """A library with functions and thread-local variables."""
    return build_target("symbols", "-shared", "-fPIC", output="symbols.so")


def damaged(program: Path, folder: Path) -> Path:
    """The same with symbol tables that go on beyond the file's end."""
    data = bytearray(program.read_bytes())
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    for number in range(count):
        at = table + number * SECTION.size
        fields = list(SECTION.unpack_from(data, at))
        if fields[1] in TABLES:
            fields[5] = (len(data) // 24 + 1_000) * 24
            SECTION.pack_into(data, at, *fields)
    path = folder / "damaged.so"
    path.write_bytes(data)
    return path


def test_functions_by_name_and_address_also_in_a_damaged_file(program: Path, tmp_path: Path) -> None:
    for path in (program, damaged(program, tmp_path)):
        with ElfFile(path) as elf:
            found = defined_symbols(elf, ["first", "second"])
            assert set(found) == {"first", "second"}
            for name, symbol in found.items():
                for address in (symbol.address, symbol.address + symbol.size - 1):
                    at = symbol_at(elf, address)
                    assert at is not None and at.name == name


def test_a_thread_s_variable_has_no_address(program: Path) -> None:
    with ElfFile(program) as elf:
        local = defined_symbols(elf, ["local"])["local"]
        first = defined_symbols(elf, ["first"])["first"]
        assert local.address <= first.address < local.address + local.size  # the numbers alone don't tell
        between = symbol_at(elf, local.address + local.size - 1)
        assert between is None or between.name != "local"
