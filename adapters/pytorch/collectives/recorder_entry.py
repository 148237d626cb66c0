"""Decode an entry of a Flight Recorder, by the layout of the torch version.

`c10d::FlightRecorder<Event>` keeps the newest collectives of a process in a ring; it is on by default, for gloo since
about 2.9. Its class is in a header (torch/csrc/distributed/c10d/FlightRecorder.hpp), its offsets were read from dumps
of known entries. A version that is not in the table is not read: a layout is never guessed.

Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp; offsets seen with 2.13.0 (CPU build), 2.14.1 and 2.15.0 (CUDA
builds), gloo. All three have the same, and every field was compared with the ring's `_dump_fr_trace_json`.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.linux import memory
from livedbg.probes.newest import Newest
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line


class EntryLayout(Struct, frozen=True, kw_only=True):
    """Offsets in one entry, in bytes; the defaults are those of torch 2.13 to 2.15."""

    size: int = 512  # of an entry
    record: int = 0  # its number (size_t), rising by one with each entry
    instance: int = 16  # number of the process group object in this process (size_t): a recreated group has another one
    description: int = 24  # of the group (std::string), from `new_group(group_desc=…)`
    group: int = 56  # name of the group (std::string), the same on all ranks
    sequence: int = 88  # number of the collective in its group (size_t)
    p2p_sequence: int = 96  # the same for a point-to-point operation
    name: int = 112  # of the operation (std::string), such as `gloo:all_reduce`
    created: int = 176  # enqueue time (int64, ns since the epoch)
    timeout: int = 184  # in ms (int64)
    is_p2p: int = 192  # a point-to-point operation (bool)
    inputs: int = 240  # numbers of dimensions of the input tensors (c10::SmallVector<int64_t, 4>)
    outputs: int = 312  # the same for its output tensors
    sizes: int = 384  # the sizes of all of them, concatenated (c10::SmallVector<int64_t, 8>)
    thread: int = 464  # the thread that enqueued it (pthread_self)
    retired: int = 504  # it is done (bool)


class RecorderLayout(Struct, frozen=True, kw_only=True):
    """Offsets in a recorder, in bytes; the defaults are those of torch 2.13 to 2.15."""

    size: int = 96  # how much of a recorder is read
    entries: int = 48  # std::vector<Entry>: first, last, end of capacity
    most: int = 72  # capacity of the ring (size_t)
    next: int = 80  # index of the next entry in a full ring (size_t)
    count: int = 88  # number of the next entry (size_t)
    entry: EntryLayout = EntryLayout()


LAYOUTS: Final = dict.fromkeys(((2, 13), (2, 14), (2, 15)), RecorderLayout())

RECORDERS: Final = {
    "libtorch_cpu.so": ("_ZZN4c10d14FlightRecorderIN3c105EventEE3getEvE8instance",),
    "libtorch_cuda.so": (
        "_ZZN4c10d14FlightRecorderIN2at4cuda9CUDAEventEE3getEvE8instance",
        "_ZZN4c10d14FlightRecorderIN3c104cuda9CUDAEventEE3getEvE8instance",  # 2.15
    ),
}
"""The variable that points to the recorder, by the library that has it: of gloo and others on the CPU, and of NCCL."""

_MOST_TEXT: Final = 256
_MOST_DIMS: Final = 64
_INLINE: Final = 16  # bytes of a std::string that need no memory of their own, with the NUL
_EARLIEST_NS: Final = 1_500_000_000 * 10**9  # 2017: no entry is older than this class
_NAME: Final = lazy_re(r"[\w:.<> -]{1,128}")
_TEXT: Final = lazy_re(r"[\x20-\x7e]*")
_POINTER: Final = 8
_TEXT_SIZE: Final = 32  # a std::string
_DIMS_SIZE: Final = 48  # c10::SmallVector<int64_t, 4>
_SIZES_SIZE: Final = 80  # c10::SmallVector<int64_t, 8>
_MOST_CALLS: Final = 1 << 10  # that are remembered


class _CallFields(NamedTuple):
    """Fields of an `Entry` that repeat in each round of a loop."""

    group: str
    description: str
    name: str
    backend: str
    shapes: tuple[tuple[int, ...], ...]


class Entry(Struct, frozen=True, kw_only=True):
    """One operation that a rank has enqueued.

    Attributes:
        record: its number in the recorder.
        group: the same on all ranks; "" for a group without a name, such as that of RPC.
        description: user's name of the group, or "".
        instance: number of the group object in its process: after `destroy_process_group` the next one may have the
            same name, and counts from 1 again.
        sequence: its number in the group, from 1; collectives and point-to-point operations are numbered separately.
        name: without the backend: `all_reduce`.
        backend: `gloo`, `nccl`.
        timeout_ms: 0 if not known.
        shapes: of its input, then output tensors; () if they can't be read.
        thread: pthread_self(3) of the thread that enqueued it.
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
    instance: int = 0


class EntryReader:
    """Reads the entries of one process."""

    def __init__(self, pid: int, layout: EntryLayout) -> None:
        self._pid = pid
        self._layout = layout
        self._calls: Newest[tuple[object, ...], _CallFields] = Newest(_MOST_CALLS)
        self._fields = _fields(layout)

    def read(self, data: bytes, at: int, record: int, address: int) -> Entry | None:
        """Return the entry; None if it is implausible (flight_recorder.C1).

        A loop repeats its calls, so the decoded fields are cached by the entry's bytes, if these have no pointers to
        outside of it.

        Args:
            data: the bytes of a ring.
            at: offset of the entry.
            record: its number.
            address: of the entry in the process.
        """
        raw = self._fields.unpack_from(data, at)  # at once: thousands of entries are new in a loop that runs
        instance, described, described_in, group, group_in, sequence, p2p_sequence, name, name_in = raw[:9]
        created, timeout, is_p2p, inputs, inputs_in, outputs, outputs_in, sizes, sizes_in, thread, retired = raw[9:]
        if created < _EARLIEST_NS or is_p2p > 1 or retired > 1:
            return None
        pointers = (
            *(described - address, group - address, name - address),
            *(inputs - address, outputs - address, sizes - address),
        )
        key = None
        called = None
        if min(pointers) >= 0 and max(pointers) < self._layout.size:
            key = (pointers, described_in, group_in, name_in, inputs_in, outputs_in, sizes_in)
            called = self._calls.get(key)
        if called is None:
            called = self._read_call(data[at : at + self._layout.size], address)
            if called is None:
                return None
            if key is not None:
                self._calls[key] = called
        return Entry(
            record=record,
            group=called.group,
            description=called.description,
            sequence=p2p_sequence if is_p2p else sequence,
            name=called.name,
            backend=called.backend,
            created_wall_ns=created,
            timeout_ms=timeout if timeout < 1 << 50 else 0,
            is_p2p=is_p2p == 1,
            shapes=called.shapes,
            thread=thread,
            done=retired == 1,
            instance=instance,
        )

    def _read_call(self, data: bytes, address: int) -> _CallFields | None:
        layout = self._layout
        group, described, name = (
            self._text(data, at, address) for at in (layout.group, layout.description, layout.name)
        )
        if group is None or described is None or name is None or _NAME.fullmatch(name) is None:
            return None
        backend, colon, operation = clean_line(name).partition(":")
        words = (operation, backend) if colon else (backend, "")
        return _CallFields(clean_line(group), clean_line(described), *words, self._shapes(data, address))

    def _shapes(self, data: bytes, address: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of its tensors; () if they can't be read."""
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
        """Return a c10::SmallVector<int64_t, N>: pointer, length and capacity (uint32), and inline storage of N."""
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
        """Return a libstdc++ std::string: pointer, length, and 16 bytes for a short one; None if implausible.

        A string that was longer before keeps its heap memory, however short it is now.
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


def _fields(layout: EntryLayout) -> struct.Struct:
    """Return the format of all fields in offset order; a field with a pointer includes its inline data."""

    def inside(size: int) -> str:
        return f"Q{size - _POINTER}s"

    kinds = (
        (layout.instance, "Q"),
        (layout.description, inside(_TEXT_SIZE)),
        (layout.group, inside(_TEXT_SIZE)),
        (layout.sequence, "Q"),
        (layout.p2p_sequence, "Q"),
        (layout.name, inside(_TEXT_SIZE)),
        (layout.created, "q"),
        (layout.timeout, "Q"),
        (layout.is_p2p, "B"),
        (layout.inputs, inside(_DIMS_SIZE)),
        (layout.outputs, inside(_DIMS_SIZE)),
        (layout.sizes, inside(_SIZES_SIZE)),
        (layout.thread, "Q"),
        (layout.retired, "B"),
    )
    shape, end = "<", 0
    for at, kind in kinds:
        shape += f"{at - end}x{kind}"
        end = at + struct.calcsize(f"<{kind}")
    return struct.Struct(shape)
