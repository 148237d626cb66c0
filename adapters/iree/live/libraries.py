"""Find the dispatches loaded in a process: executable libraries of the llvm-cpu backend, and code of Mesa's lavapipe.

The runtime's own loader puts a library, an ELF image, into anonymous memory: no file names it. Its only symbol is
`iree_hal_executable_library_query`, whose code loads the address of the library's table (runtime/src/iree/hal/local/
executable_library.h). The table has the address, the name and the source line of each dispatch.

Lavapipe compiles a shader at its first launch, into anonymous memory. Its object of the compiled variant
(`lp_compute_shader_variant`, src/gallium/drivers/llvmpipe/lp_state_cs.h) has the address of the code, followed by the
address of the shader; the pipeline (`lvp_pipeline`, whose address is the handle) has the address of the shader too. So
a pipeline owns code if an address that is in no other pipeline is also shortly after a pointer to the code.

Invariants:
    iree_libraries.L1. A table of an unknown version is not read: its library is given without dispatches.
    iree_libraries.L2. Each library is read once; later scans read only the first bytes of each candidate.
    iree_libraries.J1. Code claimed by no pipeline, or by several, has no name.
"""

from __future__ import annotations

import struct
import time
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.live.image import Image
from livedbg.linux import memory
from livedbg.linux.maps import Mapping as Mapped
from livedbg.linux.maps import parse_maps
from livedbg.text.sanitize import clean_line
from livedbg.unwind.modules import NamedCode

_QUERY: Final = b"iree_hal_executable_library_query"
_VERSIONS: Final = frozenset({6})  # IREE_HAL_EXECUTABLE_LIBRARY_VERSION_0_6
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_HASH, _STRINGS, _SYMBOLS = 4, 5, 6  # DT_HASH, DT_STRTAB, DT_SYMTAB
_MOST_SYMBOLS: Final = 64
_MOST_DISPATCHES: Final = 1 << 16
_MOST_SEGMENTS: Final = 32
_LONGEST: Final = 512
_CODE: Final = 64  # bytes of the query function
_PAGE: Final = 4096


class Dispatch(Struct, frozen=True):
    """One exported function of a library.

    Attributes:
        address: of its code.
        ordinal: index in the library.
        source: `FILE:LINE`, or "".
        device: device that it is compiled for; "" if any local device may run it.
    """

    address: int
    ordinal: int
    name: str
    source: str = ""
    device: str = ""


class Library(Struct, frozen=True):
    """One executable library in a process's memory: dispatches by address, none for an unknown version (L1)."""

    start: int
    end: int
    name: str = ""
    version: int = 0
    dispatches: tuple[Dispatch, ...] = ()

    def at(self, address: int) -> Dispatch | None:
        """Return the dispatch whose code contains an address."""
        if not self.start <= address < self.end:
            return None
        index = bisect_right(self.dispatches, address, key=lambda one: one.address) - 1
        return self.dispatches[index] if index >= 0 else None


class Libraries:
    """The executable libraries of one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[tuple[int, int], Library | None] = {}
        self.found: tuple[Library, ...] = ()

    def look(self, mappings: Sequence[Mapped]) -> tuple[Library, ...]:
        """Return the loaded libraries; raise OSError if the process can't be read."""
        places = [mapping for mapping in mappings if _may_begin(mapping)]
        heads = memory.read_many(self._pid, [(mapping.start, 64) for mapping in places])
        known: dict[tuple[int, int], Library | None] = {}
        for mapping, head in zip(places, heads, strict=True):
            if head is None or head[:4] != b"\x7fELF" or head[16:18] != b"\x03\0":
                continue
            key = (mapping.start, mapping.inode)
            known[key] = self._known[key] if key in self._known else self._read(mapping.start, head)
        self._known = known
        self.found = tuple(library for library in known.values() if library is not None)
        return self.found

    def at(self, address: int) -> Dispatch | None:
        """Return the dispatch whose code contains an address."""
        return next((one for library in self.found if (one := library.at(address)) is not None), None)

    def _read(self, start: int, head: bytes) -> Library | None:
        try:
            return _library(self._pid, start, head)
        except (ProcessLookupError, PermissionError):
            raise
        except (OSError, struct.error, ValueError):
            return None  # no such library, or half loaded


def _may_begin(mapping: Mapped) -> bool:
    """Return whether it is anonymous memory, or the file of the system's loader (loaders/system_library_loader.c)."""
    anonymous = not mapping.path and not mapping.inode and mapping.permissions.startswith("r-")
    return anonymous or (mapping.offset == 0 and "iree_dylib" in mapping.path)


def _library(pid: int, start: int, head: bytes) -> Library | None:
    table_at, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    if not 0 < count <= _MOST_SEGMENTS:
        return None
    segments = list(_PROGRAM.iter_unpack(memory.read(pid, start + table_at, count * _PROGRAM.size)))
    end = start + max((one[3] + one[6] for one in segments if one[0] == _PT_LOAD), default=0)
    dynamic = next((one for one in segments if one[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    query = _query(pid, start, memory.read(pid, start + dynamic[3], dynamic[6] // 16 * 16))
    if query is None:
        return None
    table = _table(pid, memory.read(pid, query, min(_CODE, _PAGE - query % _PAGE)), query)
    if table is None:
        return Library(start, end)
    (header,) = struct.unpack("<Q", memory.read(pid, table, 8))
    version, _, name_at = struct.unpack("<IIQ", memory.read(pid, header, 16))
    name = _text(pid, name_at)
    dispatches = tuple(sorted(_dispatches(pid, table), key=lambda one: one.address)) if version in _VERSIONS else ()
    return Library(start, end, name, version, dispatches)


def _query(pid: int, start: int, dynamic: bytes) -> int | None:
    """Return the address of the query function."""
    fields = dict(struct.iter_unpack("<qQ", dynamic))
    if _STRINGS not in fields or _SYMBOLS not in fields:
        return None
    strings, symbols = (_placed(start, fields[tag]) for tag in (_STRINGS, _SYMBOLS))
    count = _MOST_SYMBOLS
    if _HASH in fields:
        (count,) = struct.unpack("<I", memory.read(pid, _placed(start, fields[_HASH]) + 4, 4))
    entries = memory.read(pid, symbols, min(count, _MOST_SYMBOLS) * _SYMBOL.size)
    for name, _, _, section, value, _ in _SYMBOL.iter_unpack(entries):
        if section and name and memory.read_text(pid, strings + name, len(_QUERY) + 1) == _QUERY:
            return start + int(value)
    return None


def _placed(start: int, value: int) -> int:
    """Return a runtime address: the system's loader relocates it, the runtime's own does not."""
    return value if value >= start else start + value


def _table(pid: int, code: bytes, at: int) -> int | None:
    """Return the library's table: the operand of a `lea` (relative to the next instruction) in the query function.

    Its first word must point to a header that begins with a version.
    """
    for place in range(len(code) - 7):
        if code[place] & 0xFB == 0x48 and code[place + 1] == 0x8D and code[place + 2] & 0xC7 == 5:
            table: int = at + place + 7 + struct.unpack_from("<i", code, place + 3)[0]
            try:
                (header,) = struct.unpack("<Q", memory.read(pid, table, 8))
                (version,) = struct.unpack("<I", memory.read(pid, header, 4))
            except OSError:
                continue
            if 0 < version < 64:
                return table
    return None


def _dispatches(pid: int, table: int) -> Iterator[Dispatch]:
    """Yield the export table: a count, and columns (iree_hal_executable_export_table_v0_t)."""
    count, _, *columns = struct.unpack("<II9Q", memory.read(pid, table + 24, 80))
    if not 0 < count <= _MOST_DISPATCHES:
        return
    pointers, _, _, _, names, _, _, sources, _ = columns
    addresses = struct.unpack(f"<{count}Q", memory.read(pid, pointers, 8 * count))
    texts = struct.unpack(f"<{count}Q", memory.read(pid, names, 8 * count)) if names else (0,) * count
    places = list(struct.iter_unpack("<IIQ", memory.read(pid, sources, 16 * count))) if sources else []
    for ordinal, (address, text) in enumerate(zip(addresses, texts, strict=True)):
        name = _text(pid, text) or f"dispatch {ordinal}"
        source = ""
        if places:
            line, _, path = places[ordinal]
            file = _text(pid, path)
            source = f"{file}:{line}" if file else ""
        yield Dispatch(address, ordinal, name, source)


def _text(pid: int, at: int) -> str:
    return clean_line(memory.read_text(pid, at, _LONGEST).decode("utf-8", "replace")) if at else ""


_SIZE: Final = struct.Struct("<Q")  # of a block of glibc's heap, before it; the low bits are flags
_NEAR: Final = 16  # words behind the pointer to the code
_LEAST, _MOST = 64, 16384  # bytes of a pipeline


class Code(Struct, frozen=True):
    """The code of one dispatch; `proof` has address and value of the words that prove it."""

    start: int
    end: int
    dispatch: Dispatch
    proof: tuple[tuple[int, int], ...] = ()


def code_mappings(mappings: Sequence[Mapped]) -> tuple[tuple[int, int], ...]:
    """Return where a driver's code may be: executable anonymous memory."""
    return tuple(
        (one.start, one.end) for one in mappings if one.permissions == "r-xp" and not one.inode and not one.path
    )


def read_code(image: Image, places: Sequence[tuple[int, int]], pipelines: Mapping[int, Dispatch]) -> tuple[Code, ...]:
    """Return the code of some pipelines, as far as compiled, in ranges of possible code in ascending order."""
    shaders = _words_of(image, pipelines)
    if not shaders or not places:
        return ()
    begins = {start for start, _ in places}
    claims: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {}
    found = list(image.pointers(places))
    begins.update(value for _, value in found if value % _PAGE == 0)
    starts = sorted(begins)
    for place, value in found:
        claim = _claim(image, place, shaders)
        if claim is not None:
            handle, proof = claim
            start = starts[bisect_right(starts, value) - 1]
            claims.setdefault(start, {})[handle] = ((place, value), proof)
    return tuple(_codes(starts, places, claims, pipelines))


def _codes(
    starts: Sequence[int],
    places: Sequence[tuple[int, int]],
    claims: Mapping[int, Mapping[int, tuple[tuple[int, int], ...]]],
    pipelines: Mapping[int, Dispatch],
) -> Iterator[Code]:
    """Yield the code claimed by exactly one pipeline (J1)."""
    for number, start in enumerate(starts):
        handles = claims.get(start, {})
        if len(handles) != 1:
            continue
        end = next(end for begin, end in places if begin <= start < end)
        if number + 1 < len(starts):
            end = min(end, starts[number + 1])
        [(handle, proof)] = handles.items()
        yield Code(start, end, pipelines[handle], proof)


def _words_of(image: Image, pipelines: Mapping[int, Dispatch]) -> dict[int, int]:
    """Map the addresses that occur in a single pipeline to its handle."""
    words: dict[int, set[int]] = {}
    for handle in pipelines:
        head = image.unpack(_SIZE, handle - _SIZE.size)
        size = (head[0] & ~15) - _SIZE.size if head is not None else 0
        data = image.bytes_at(handle, size) if _LEAST <= size <= _MOST else None
        if data is not None:
            words[handle] = {word for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]) if word in image}
    counts = Counter(word for one in words.values() for word in one)
    return {word: handle for handle, one in words.items() for word in one if counts[word] == 1}


def _claim(image: Image, place: int, shaders: Mapping[int, int]) -> tuple[int, tuple[int, int]] | None:
    """Return the pipeline whose shader comes first after a pointer to code, and the word that names it."""
    data = image.bytes_at(place + 8, 8 * _NEAR) or b""
    for number, (word,) in enumerate(struct.iter_unpack("<Q", data)):
        if word in shaders:
            return shaders[word], (place + 8 + 8 * number, word)
    return None


_AGAIN_S: Final = 2.0
_PROCESSES: Final = 64

_known: OrderedDict[int, tuple[Libraries, float]] = OrderedDict()


def dispatch_code(pid: int, address: int) -> NamedCode | None:
    """Return the dispatch whose code contains an address of a process."""
    libraries, looked_s = _known.get(pid) or (Libraries(pid), -_AGAIN_S)
    if time.monotonic() - looked_s >= _AGAIN_S:  # modules are unloaded, and process numbers are given again
        try:
            libraries.look(parse_maps(pid))
        except OSError:
            return None  # gone, or not ours to look at
        _known[pid] = (libraries, time.monotonic())
        _known.move_to_end(pid)
        if len(_known) > _PROCESSES:
            _known.popitem(last=False)
    found = libraries.at(address)
    return _named(found) if found is not None else None


def _named(dispatch: Dispatch) -> NamedCode:
    file, _, line = dispatch.source.rpartition(":")
    return NamedCode(dispatch.name, file, int(line)) if file and line.isdigit() else NamedCode(dispatch.name)
