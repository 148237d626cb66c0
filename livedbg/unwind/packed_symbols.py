"""The symbol table that distributions pack into stripped files: `.gnu_debugdata`, an ELF file compressed by xz.

Fedora and RHEL strip their programs so, and wheels that are built on them hold such libraries (gdb's manual,
MiniDebugInfo).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.linux.elf import ElfError, ElfFile

__all__ = ["packed_symbols"]

_SECTION: Final = ".gnu_debugdata"
_MOST_PACKED: Final = 16 << 20
_MOST_BYTES: Final = 64 << 20
_MOST_MEMORY: Final = 128 << 20  # of the decompressor


@contextlib.contextmanager
def packed_symbols(file: ElfFile) -> Iterator[ElfFile | None]:
    """The ELF file that another one holds; None where it holds none, or a damaged one."""
    packed = file.section(_SECTION, _MOST_PACKED)
    if not packed:
        yield None
        return
    fd = os.memfd_create("symbols", os.MFD_CLOEXEC)
    try:
        with contextlib.ExitStack() as stack:
            inner: ElfFile | None = None
            with contextlib.suppress(OSError, ElfError):
                os.pwrite(fd, _unpacked(packed), 0)
                inner = stack.enter_context(ElfFile(Path(f"/proc/self/fd/{fd}")))
            yield inner
    finally:
        os.close(fd)


def _unpacked(packed: bytes) -> bytes:
    """What was compressed, up to `_MOST_BYTES`; b"" where it can't be read."""
    try:
        import lzma  # a Python may be built without it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY).decompress(packed, _MOST_BYTES)
    except lzma.LZMAError:
        return b""
