"""Reads the Flight Recorder of a running process from its memory: no stop, no environment variable, no code there.

Invariants:
    flight_recorder.C1. An entry that makes no sense is dropped; where the first entries make none, the whole ring is:
        the layout is not the one of the table, or it changes too fast.
    flight_recorder.C2. An entry that was overwritten while it was read is dropped: its number is there twice, or makes
        no sense.
"""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.layouts import RECORDERS, RecorderLayout, layout_of, version_in
from livedbg.adapters.pytorch.collectives.recorder_code import recorder_in_code
from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile, mapped_file
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.text.sanitize import clean_line

__all__ = ["Entry", "LayoutUnknown", "Recorder", "Ring", "find_recorders"]

_MOST_ENTRIES: Final = 1 << 16
_MOST_TEXT: Final = 256
_MOST_DIMS: Final = 64
_INLINE: Final = 16  # bytes of a std::string that need no memory of their own, with the NUL
_EARLIEST_NS: Final = 1_500_000_000 * 10**9  # 2017: no entry is older than this class
_NAME: Final = re.compile(r"[\w:.<> -]{1,128}")
_TEXT: Final = re.compile(r"[\x20-\x7e]*")
_SURE: Final = 4  # entries that are looked at before a ring is believed


class LayoutUnknown(Exception):
    """A recorder that can't be read; the text says why, for users."""


class Entry(Struct, frozen=True, kw_only=True):
    """One operation that a rank has enqueued.

    Attributes:
        record: its number in the recorder.
        group: the group's name, the same on all ranks; "" of one that has none, such as that of RPC.
        description: what its author called the group, or "".
        sequence: of a collective: its number in the group, from 1; of a point-to-point operation: that of these.
        name: without the backend: `all_reduce`.
        backend: `gloo`, `nccl`.
        created_wall_ns: when it was enqueued.
        timeout_ms: after how long it fails; 0: not known.
        is_p2p: a point-to-point operation.
        shapes: of its input and output tensors, in this order; () where they can't be read.
        thread: of the process that enqueued it, as pthread_self(3) has it.
        done: it has completed.
    """

    record: int
    group: str
    description: str
    sequence: int
    name: str
    backend: str
    created_wall_ns: int
    timeout_ms: int
    is_p2p: bool
    shapes: tuple[tuple[int, ...], ...]
    thread: int
    done: bool


class Ring(Struct, frozen=True, kw_only=True):
    """What a recorder had at one moment.

    Attributes:
        entries: in the order in which they were enqueued.
        count: how many operations there were since the process began.
        whole: no operation has been dropped from the ring yet.
    """

    entries: tuple[Entry, ...]
    count: int
    whole: bool


class Recorder:
    """The recorder of one library in one process.

    Args:
        pid: the process.
        pointer: where the pointer to the recorder is.
        layout: of the torch version that the process has loaded.
    """

    def __init__(self, pid: int, pointer: int, layout: RecorderLayout) -> None:
        self._pid = pid
        self._pointer = pointer
        self._layout = layout
        self._done: dict[int, Entry] = {}

    def read(self) -> Ring | None:
        """The ring now; None where nothing was ever recorded.

        Raises:
            LayoutUnknown: it makes no sense.
            OSError: gone, or not allowed.
        """
        layout = self._layout
        at = self._word(self._pointer)
        if not at:
            return None
        head = memory.read(self._pid, at, layout.size)
        first, last, _ = struct.unpack_from("<3Q", head, layout.entries)
        most, following, count = (
            struct.unpack_from("<Q", head, at)[0] for at in (layout.most, layout.next, layout.count)
        )
        number, rest = divmod(last - first, layout.entry.size)
        if not (
            last >= first and not rest and number <= most <= _MOST_ENTRIES and following <= most and number <= count
        ):
            raise LayoutUnknown("the Flight Recorder in its memory does not look as in this version of torch")
        data = memory.read(self._pid, first, number * layout.entry.size) if number else b""
        entries = self._entries(data, number, first)
        if number and not entries:
            raise LayoutUnknown("the entries of the Flight Recorder in its memory make no sense")
        return Ring(entries=entries, count=count, whole=count <= most)

    def _entries(self, data: bytes, number: int, address: int) -> tuple[Entry, ...]:
        size, layout = self._layout.entry.size, self._layout.entry
        found: dict[int, Entry] = {}
        tried = 0
        for place in range(number):
            at = place * size
            (record,) = struct.unpack_from("<Q", data, at + layout.record)
            entry = self._done.get(record)
            if entry is None:
                tried += 1
                entry = self._entry(data[at : at + size], record, address + at)
            if entry is not None and record not in found:
                found[record] = entry
            elif not found and tried >= _SURE:
                return ()  # C1
        self._done = {record: entry for record, entry in found.items() if entry.done}
        return tuple(found[record] for record in sorted(found))

    def _entry(self, data: bytes, record: int, address: int) -> Entry | None:
        layout = self._layout.entry

        def word(at: int) -> int:
            value: int = struct.unpack_from("<Q", data, at)[0]
            return value

        created, timeout = struct.unpack_from("<q", data, layout.created)[0], word(layout.timeout)
        if created < _EARLIEST_NS or data[layout.is_p2p] > 1 or data[layout.retired] > 1:
            return None
        group, described, name = (
            self._text(data, at, address) for at in (layout.group, layout.description, layout.name)
        )
        if group is None or described is None or name is None or _NAME.fullmatch(name) is None:
            return None
        backend, colon, operation = name.partition(":")
        is_p2p = bool(data[layout.is_p2p])
        return Entry(
            record=record,
            group=clean_line(group),
            description=clean_line(described),
            sequence=word(layout.p2p_sequence if is_p2p else layout.sequence),
            name=clean_line(operation if colon else name),
            backend=clean_line(backend if colon else ""),
            created_wall_ns=created,
            timeout_ms=timeout if timeout < 1 << 50 else 0,
            is_p2p=is_p2p,
            shapes=self._shapes(data, address),
            thread=word(layout.thread),
            done=bool(data[layout.retired]),
        )

    def _shapes(self, data: bytes, address: int) -> tuple[tuple[int, ...], ...]:
        """The sizes of its tensors; () where they can't be read."""
        layout = self._layout.entry
        dims = (*self._numbers(data, layout.inputs, address), *self._numbers(data, layout.outputs, address))
        sizes = self._numbers(data, layout.sizes, address)
        if any(not 0 <= dim <= _MOST_DIMS for dim in dims) or sum(dims) != len(sizes):
            return ()
        shapes, at = [], 0
        for dim in dims:
            shapes.append(tuple(sizes[at : at + dim]))
            at += dim
        return tuple(shapes)

    def _numbers(self, data: bytes, at: int, address: int) -> tuple[int, ...]:
        """A c10::SmallVector<int64_t, N>: pointer, length and capacity (uint32), and room for N of them."""
        pointer, count = struct.unpack_from("<QI", data, at)
        if not 0 < count <= _MOST_DIMS:
            return ()
        inside = pointer - address
        with contextlib.suppress(OSError, OverflowError, struct.error):
            if 0 <= inside < len(data):
                return struct.unpack_from(f"<{count}q", data, inside)
            return struct.unpack(f"<{count}q", memory.read(self._pid, pointer, 8 * count))
        return ()

    def _text(self, data: bytes, at: int, address: int) -> str | None:
        """A std::string of libstdc++: pointer, length, and 16 bytes for a short one; None where it makes no sense.

        One that was longer before keeps its memory, however short it is now.
        """
        pointer, size = struct.unpack_from("<2Q", data, at)
        if size > _MOST_TEXT:
            return None
        try:
            inside = pointer == address + at + 16 and size < _INLINE
            raw = data[at + 16 : at + 16 + size] if inside else memory.read(self._pid, pointer, size)
            text = raw.decode("ascii")
        except (OSError, OverflowError, UnicodeDecodeError):
            return None
        return text if _TEXT.fullmatch(text) else None

    def _word(self, address: int) -> int:
        return int.from_bytes(memory.read(self._pid, address, 8), "little")


def find_recorders(pid: int) -> list[Recorder]:
    """The recorders of the torch libraries that a process has loaded; [] where it has loaded none.

    Raises:
        LayoutUnknown: torch is loaded, but not in a version that can be read.
        OSError: gone, or not allowed.
    """
    loaded: dict[str, list[Mapping]] = {}
    for mapping in parse_maps(pid):
        name = mapping.path.rpartition("/")[2]
        if name in RECORDERS:
            loaded.setdefault(name, []).append(mapping)
    if not loaded:
        return []
    version = _version(pid, next(iter(loaded.values()))[0].path)
    layout = layout_of(version) if version is not None else None
    if layout is None:
        text = ".".join(map(str, version)) if version is not None else "of this process, whose version is not known"
        raise LayoutUnknown(f"where torch {text} keeps its collectives is not known")
    found = []
    for name, mappings in loaded.items():
        address = _address(pid, RECORDERS[name], mappings)
        if address is not None:
            found.append(Recorder(pid, address, layout))
    if not found:
        raise LayoutUnknown("its torch library is stripped, and its code does not say where the Flight Recorder is")
    return found


_symbols: dict[tuple[int, int, int], int | None] = {}
"""Addresses in libraries by device, inode and time of change: the ranks of a job have the same, and it is large."""


def _address(pid: int, symbols: tuple[str, ...], mappings: list[Mapping]) -> int | None:
    file = mapped_file(pid, mappings[0])
    stat = file.stat()
    key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
    try:
        with ElfFile(file) as elf:
            if key not in _symbols:
                one = next(iter(elf.symbols(symbols).values()), None)
                _symbols[key] = one.address if one is not None else recorder_in_code(elf)
            bias, value = elf.load_bias(mappings), _symbols[key]
    except ElfError:
        return None
    return bias + value if bias is not None and value is not None else None


def _version(pid: int, library: str) -> tuple[int, int] | None:
    """The version of the package that a library belongs to: `torch/lib/libtorch_cpu.so`, `torch/version.py`."""
    package = library.rpartition("/")[0].rpartition("/")[0]
    try:
        with open(f"/proc/{pid}/root{package}/version.py", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return version_in(file.read(1 << 16))
    except OSError:
        return None
