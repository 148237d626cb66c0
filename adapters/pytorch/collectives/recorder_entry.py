"""One entry of a Flight Recorder: an operation that a rank has enqueued, from its bytes."""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.layouts import EntryLayout
from livedbg.linux import memory
from livedbg.probes.newest import Newest
from livedbg.text.sanitize import clean_line

__all__ = ["Entry", "EntryReader"]

_MOST_TEXT: Final = 256
_MOST_DIMS: Final = 64
_INLINE: Final = 16  # bytes of a std::string that need no memory of their own, with the NUL
_EARLIEST_NS: Final = 1_500_000_000 * 10**9  # 2017: no entry is older than this class
_NAME: Final = re.compile(r"[\w:.<> -]{1,128}")
_TEXT: Final = re.compile(r"[\x20-\x7e]*")
_U64: Final = struct.Struct("<Q")
_I64: Final = struct.Struct("<q")
_TEXT_SIZE: Final = 32  # a std::string
_DIMS_SIZE: Final = 48  # c10::SmallVector<int64_t, 4>
_SIZES_SIZE: Final = 80  # c10::SmallVector<int64_t, 8>
_MOST_CALLS: Final = 1 << 10  # that are remembered


class _Called(NamedTuple):
    """What an entry says that is the same for each round of a loop; see Entry."""

    group: str
    description: str
    name: str
    shapes: tuple[tuple[int, ...], ...]


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


class EntryReader:
    """Reads the entries of one process.

    Args:
        pid: the process.
        layout: of the torch version that it has loaded.
    """

    def __init__(self, pid: int, layout: EntryLayout) -> None:
        self._pid = pid
        self._layout = layout
        self._calls: Newest[tuple[object, ...], _Called] = Newest(_MOST_CALLS)
        fields = {
            layout.group: _TEXT_SIZE,
            layout.description: _TEXT_SIZE,
            layout.name: _TEXT_SIZE,
            layout.inputs: _DIMS_SIZE,
            layout.outputs: _DIMS_SIZE,
            layout.sizes: _SIZES_SIZE,
        }
        self._pointers = tuple(fields)
        self._inside = [(at + _U64.size, at + size) for at, size in fields.items()]

    def read(self, data: bytes, record: int, address: int) -> Entry | None:
        """The entry; None where it makes no sense (flight_recorder.C1).

        Args:
            data: its bytes.
            record: its number.
            address: where they lie in the process.
        """
        layout = self._layout
        created, timeout = _I64.unpack_from(data, layout.created)[0], _U64.unpack_from(data, layout.timeout)[0]
        if created < _EARLIEST_NS or data[layout.is_p2p] > 1 or data[layout.retired] > 1:
            return None
        called = self._called(data, address)
        if called is None:
            return None
        group, described, name, shapes = called
        backend, colon, operation = name.partition(":")
        is_p2p = bool(data[layout.is_p2p])
        return Entry(
            record=record,
            group=group,
            description=described,
            sequence=_U64.unpack_from(data, layout.p2p_sequence if is_p2p else layout.sequence)[0],
            name=operation if colon else name,
            backend=backend if colon else "",
            created_wall_ns=created,
            timeout_ms=timeout if timeout < 1 << 50 else 0,
            is_p2p=is_p2p,
            shapes=shapes,
            thread=_U64.unpack_from(data, layout.thread)[0],
            done=bool(data[layout.retired]),
        )

    def _called(self, data: bytes, address: int) -> _Called | None:
        """What was called. A loop calls the same again and again, so it is remembered by the bytes of the entry, where
        these point to nothing outside of it."""
        pointers = [_U64.unpack_from(data, at)[0] - address for at in self._pointers]
        if not all(0 <= pointer < len(data) for pointer in pointers):
            return self._read_call(data, address)
        key = (*pointers, *(data[start:end] for start, end in self._inside))
        known = self._calls.get(key)
        if known is None:
            known = self._read_call(data, address)
            if known is not None:
                self._calls[key] = known
        return known

    def _read_call(self, data: bytes, address: int) -> _Called | None:
        layout = self._layout
        group, described, name = (
            self._text(data, at, address) for at in (layout.group, layout.description, layout.name)
        )
        if group is None or described is None or name is None or _NAME.fullmatch(name) is None:
            return None
        return _Called(clean_line(group), clean_line(described), clean_line(name), self._shapes(data, address))

    def _shapes(self, data: bytes, address: int) -> tuple[tuple[int, ...], ...]:
        """The sizes of its tensors; () where they can't be read."""
        layout = self._layout
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
