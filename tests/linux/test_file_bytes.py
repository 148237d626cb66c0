"""Files of others are read by pread: what is found in them, and what a truncation does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.linux import elf
from livedbg.linux.elf import ElfError, ElfFile, FileBytes
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.recipes import effects

ROOT = Path(__file__).parents[2]


@pytest.mark.invariant("file_bytes.B2")
@given(data=st.text("ab\0", max_size=200), needle=st.text("ab\0", min_size=1, max_size=3), window=st.integers(4, 40))
def test_B2_a_search_by_windows_finds_what_a_search_in_all_of_it_finds(
    tmp_path_factory: pytest.TempPathFactory, data: str, needle: str, window: int
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_text(data)
    whole, wanted = data.encode(), needle.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elf, "_WINDOW", window)
        patch.setattr(elf, "_SMALL", 3)
        read = FileBytes(path)
        for start in range(0, len(whole) + 2, 7):
            for end in (len(whole) + 5, len(whole) - 3, start + 1):
                found = read.find(wanted, start, end)
                assert found == (whole.find(wanted, start, end) if end > start else -1)
                assert read.read(start, max(0, end - start)) == whole[start : max(start, end)]
                assert len(read._window) <= window
        assert b"".join(read.pieces(0, len(whole))) == whole
        read.close()


@pytest.mark.invariant("file_bytes.B1")
def test_B1_a_file_that_is_truncated_has_fewer_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * (3 << 20) + b"needle")
    read = FileBytes(path)
    path.write_bytes(b"a" * 10)
    assert read.read(0, 100) == b"a" * 10 and read.read(2 << 20, 8) == b"" and list(read.pieces(1 << 20, 100)) == []
    assert read.find(b"needle", 0, read.size) == -1
    read.close()


@pytest.mark.invariant("file_bytes.B1")
def test_B1_a_library_that_is_truncated_as_it_is_read_is_an_error_and_no_end(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(Path(sys.executable).resolve().read_bytes())
    with ElfFile(path) as elf:
        path.write_bytes(b"")
        with pytest.raises(ElfError):
            defined_symbols(elf, ["main"])


def test_foreign_files_are_never_mapped() -> None:
    look = ["grep", "-rlE", r"mmap\.mmap\(|memmap\(|mmap_mode", "--include=*.py", "livedbg", "adapters", "panels"]
    found = subprocess.run(look, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert found == ["livedbg/probes/rings.py"]  # rings of the kernel's


@given(lines=st.lists(st.text("ab ", max_size=12), max_size=60), block=st.integers(64, 200))
def test_a_log_is_searched_line_by_line_whatever_the_blocks_are(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effects, "_BLOCK", block)
        patch.setattr(effects, "_OVERLAP", 30)
        for expression in (rb"^ab+$", rb"a(a)b", rb"^$", rb"b\na"):
            pattern = re.compile(expression, re.MULTILINE)
            match = pattern.search(path.read_bytes())
            found = effects._search(path, pattern)
            assert found == (None if match is None or not path.stat().st_size else match.groups())
