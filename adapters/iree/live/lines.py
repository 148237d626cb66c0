"""Lines of instructions of dispatches, by the debug information of their library in the module's file.

The loader copies a library's segments only, so its debug information is in the module's file: an ELF image somewhere in
it, the same as that in memory. IREE's compiler writes lines of operations only where it dumps the executables
(`--iree-hal-dump-executable-files-to`): lines of the dumped sources. Without that all instructions have the line of the
function and no file, and nothing is told.

Invariants:
    iree_lines.I1. An image is believed only if its code is that in memory, byte by byte.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from livedbg.adapters.iree.live.libraries import Library
from livedbg.linux import memory, target_files
from livedbg.linux.maps import Mapping as Mapped
from livedbg.text.sanitize import clean_line

_MAGIC: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<40xQ10xHH2x")  # section headers at 40, their size at 58 and count
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _EXECUTE = 1, 1
_MOST_BYTES: Final = 64 << 20  # of a module's file
_LARGEST: Final = 16 << 20  # of an image
_MOST_FILES: Final = 8
_OPTION: Final = b"--module="
_BASE: Final = 1 << 32  # where images lie for drgn


class Lines:
    """Those of one process.

    Args:
        pid: it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._images: dict[tuple[int, str], bytes | None] = {}
        self._lines: dict[tuple[str, int, int], str] = {}

    def at(self, library: Library, address: int, mappings: Sequence[Mapped]) -> str:
        """`FILE:LINE` of an instruction; "" where that isn't known.

        Raises:
            OSError: the process is gone, or may not be read.
        """
        place = (library.name, library.start, address)
        if place not in self._lines:
            key = (library.start, library.name)
            if key not in self._images:
                self._images[key] = next(_images(self._pid, library, mappings), None)
            image = self._images[key]
            self._lines[place] = _line(image, address - library.start) if image is not None else ""
        return self._lines[place]


def _images(pid: int, library: Library, mappings: Sequence[Mapped]) -> Iterator[bytes]:
    """The images in the module files of a process that have the code of a library."""
    for path in _files(pid, mappings):
        try:
            with target_files.open_binary(path) as file:
                data = file.read(_MOST_BYTES)
        except OSError:
            continue
        at = data.find(_MAGIC)
        while at >= 0:
            image = _image(data, at)
            if image is not None and _is_in_memory(pid, library, image):
                yield image
            at = data.find(_MAGIC, at + 1)


def _files(pid: int, mappings: Sequence[Mapped]) -> list[Path]:
    """Files of modules: those that are mapped, and those of the command line."""
    root = Path(f"/proc/{pid}/root")
    found = [root / one.path.lstrip("/") for one in mappings if one.path.endswith(".vmfb")]
    for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
        name = os.fsdecode(word[len(_OPTION) :]) if word.startswith(_OPTION) else ""
        if name:
            found.append(root / name.lstrip("/") if name.startswith("/") else Path(f"/proc/{pid}/cwd") / name)
    return list(dict.fromkeys(found))[:_MOST_FILES]


def _image(data: bytes, at: int) -> bytes | None:
    if at + 64 > len(data):
        return None
    sections, size, count = _HEADER.unpack_from(data, at)
    end = sections + size * count
    return data[at : at + end] if 64 < end <= min(_LARGEST, len(data) - at) else None


def _is_in_memory(pid: int, library: Library, image: bytes) -> bool:
    """Whether its code is that of the library (I1)."""
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    if table + count * _PROGRAM.size > len(image):
        return False
    segments = (_PROGRAM.unpack_from(image, table + number * _PROGRAM.size) for number in range(count))
    code = [one for one in segments if one[0] == _PT_LOAD and one[1] & _EXECUTE]
    if not code or any(library.start + one[3] + one[5] > library.end for one in code):
        return False
    try:
        return all(memory.read(pid, library.start + one[3], one[5]) == image[one[2] : one[2] + one[5]] for one in code)
    except (ProcessLookupError, PermissionError):
        raise
    except OSError:
        return False


def _line(image: bytes, address: int) -> str:
    """What the image's debug information says of an instruction."""
    try:
        import drgn  # not on every platform
    except ImportError:
        return ""
    file = os.memfd_create("image")
    try:
        os.write(file, image)
        program = drgn.Program(drgn.host_platform)
        program.set_enabled_debug_info_finders(())
        module = program.extra_module("image", 0, create=True)
        module.address_range = (_BASE, _BASE + _LARGEST)
        module.try_file("image", fd=os.dup(file), force=True)
        for frame in program.stack_trace_from_pcs([_BASE + address + 1]):  # drgn takes one off: a return address
            path, line, _ = frame.source()
            if line > 0 and path.rpartition("/")[2] not in ("", "-"):
                return clean_line(f"{path.rpartition('/')[2]}:{line}")
    except (LookupError, ValueError, OSError):
        return ""
    finally:
        os.close(file)
    return ""
