"""Which symbol an address has."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

from livedbg.linux import elf as elf_files
from livedbg.linux import elf_symbols
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import code_symbols, defined_symbols, symbol_name
from livedbg.unwind.dwarf_functions import FunctionSymbols, functions_at

SOURCE = """
.text
.globl named
.type named, @function
named: nop; nop; nop; nop
.size named, 4
.globl __named
.set __named, named
.type __named, @function
.size __named, 4
hidden: nop; nop
unsized: nop; nop
.space 1000, 0x90
.globl after
.type after, @function
after: nop
.size after, 1
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "l.s").write_text(SOURCE)
    file = tmp_path / "l.so"
    subprocess.run(["gcc", "-shared", "-nostdlib", str(tmp_path / "l.s"), "-o", str(file)], check=True, timeout=60)
    return file


@pytest.mark.invariant("dwarf_functions.F1")
def test_F1_an_address_has_the_name_of_the_function_that_it_lies_in(library: Path, tmp_path: Path) -> None:
    with ElfFile(library) as elf:
        symbols = defined_symbols(elf, ["named", "after"])
    start, after = symbols["named"].address, symbols["after"].address
    wanted = [start - 1, start, start + 3, start + 4, start + 6, start + 100, start + 400, after, after + 1]
    with ElfFile(library) as elf:
        found = functions_at(elf, wanted)
    assert found == {
        start: "named",  # and not __named
        start + 3: "named",
        start + 4: "hidden",
        start + 6: "unsized",
        start + 100: "unsized",
        after: "after",
    }
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-s", "-o", str(stripped), str(library)], check=True, timeout=60)
    with ElfFile(stripped) as elf:
        assert functions_at(elf, wanted) == {start: "named", start + 3: "named", after: "after"}


def test_a_large_table_is_read_with_the_same_result(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libc = next(Path("/lib/x86_64-linux-gnu").glob("libc.so.6"))
    for file, pieces in ((library, 1), (library, 97), (libc, 1 << 20)):
        with ElfFile(file) as elf:
            starts = sorted({symbol.address for symbol in code_symbols(elf, [0, 1 << 40], 1 << 50)})
            near = [at + step for at in starts[:: max(1, len(starts) // 50)] for step in (0, 3)] + [1 << 64]
            small = list(code_symbols(elf, near, 64))
            monkeypatch.setattr(elf_symbols, "_LARGE", 0)
            monkeypatch.setattr(elf_files, "_WINDOW", max(pieces, 64))
            assert small and list(code_symbols(elf, near, 64)) == small
            assert list(code_symbols(elf, [], 64)) == list(code_symbols(elf, [-5], 64)) == []
            monkeypatch.undo()


@pytest.mark.invariant("dwarf_functions.F2")
def test_F2_what_was_asked_once_is_not_read_again(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ElfFile(library) as elf:
        start = defined_symbols(elf, ["named"])["named"].address
    known = FunctionSymbols()
    assert known.at("key", [tmp_path / "none", library], [start, start + 900]) == {start: "named"}
    library.unlink()
    assert known.at("key", [library], [start, start + 900]) == {start: "named"}
    assert known.at("other", [library], [start]) == {}
    monkeypatch.setattr("livedbg.unwind.dwarf_functions._FUNCTION_SYMBOLS_MOST", 2)
    known.at("third", [library], [1, 2])
    assert len(known._known) == 2


def test_each_symbol_of_code_near_an_address_is_given_with_its_size(library: Path) -> None:
    with ElfFile(library) as elf:
        at = {name: symbol.address for name, symbol in defined_symbols(elf, ["named", "after", "unsized"]).items()}
        given = [(symbol_name(elf, symbol), symbol.size) for symbol in code_symbols(elf, sorted(at.values()), 1)]
        assert {("named", 4), ("after", 1), ("unsized", 0)} <= set(given)
        longer = {symbol_name(elf, symbol) for symbol in code_symbols(elf, [at["named"] + 3], 1)}
        assert "named" in longer and "after" not in longer
        assert "named" not in {symbol_name(elf, symbol) for symbol in code_symbols(elf, [at["named"] + 4], 1)}
        assert "named" in {symbol_name(elf, symbol) for symbol in code_symbols(elf, [at["named"] + 4], 5)}
        assert list(code_symbols(elf, [], 256)) == []


def test_a_stripped_file_may_have_its_symbols_packed(library: Path, tmp_path: Path) -> None:
    with ElfFile(library) as elf:
        start = defined_symbols(elf, ["named"])["named"].address
    hidden = start + 4
    packed, bad = tmp_path / "packed.so", tmp_path / "bad.so"
    for file, content in (packed, lzma.compress(library.read_bytes())), (bad, b"no xz"):
        (tmp_path / "symbols").write_bytes(content)
        section = f".gnu_debugdata={tmp_path / 'symbols'}"
        stripped = ["objcopy", "--strip-all", "--add-section", section, str(library), str(file)]
        subprocess.run(stripped, check=True, timeout=60)
    symbols = FunctionSymbols()
    assert symbols.at("packed", [packed], {start, hidden}) == {start: "named", hidden: "hidden"}
    assert symbols.at("bad", [bad], {start, hidden}) == {start: "named"}
