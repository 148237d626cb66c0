"""Where the Flight Recorder of a torch version has its fields.

`c10d::FlightRecorder<Event>` keeps the newest collectives of a process in a ring; it is on by default, for gloo since
2.9 or so. Its class is in a header (torch/csrc/distributed/c10d/FlightRecorder.hpp), its offsets were read from dumps
of known entries. A version that is not in the table is not read: a layout is never guessed.

Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp; offsets seen with 2.13.0 (CPU build), 2.14.1 and 2.15.0 (CUDA
builds), gloo. All three have the same, and every field was compared with what `_dump_fr_trace_json` says of the ring.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from livedbg.text.patterns import lazy_re


class EntryLayout(Struct, frozen=True, kw_only=True):
    """Offsets in one entry, in bytes.

    Attributes:
        size: of an entry.
        record: its number (size_t): it rises by one with each entry.
        instance: which object of a process group in this process (size_t): a group that is made anew has another one.
        description: of the group (std::string), as `new_group(group_desc=…)` gave it.
        group: name of the group (std::string), the same on all ranks.
        sequence: number of the collective in its group (size_t).
        p2p_sequence: the same of a point-to-point operation.
        operation: number of the operation in its group, both kinds counted.
        name: of the operation (std::string), such as `gloo:all_reduce`.
        created: when it was enqueued (int64, ns since the epoch).
        timeout: after how many ms it ends with an error (int64).
        is_p2p: a point-to-point operation (bool).
        inputs: how many dimensions its input tensors have (c10::SmallVector<int64_t, 4>).
        outputs: the same of its output tensors.
        sizes: the sizes of all of them, one after the other (c10::SmallVector<int64_t, 8>).
        thread: which thread enqueued it (pthread_self).
        retired: it is done (bool).
    """

    size: int
    record: int
    instance: int
    description: int
    group: int
    sequence: int
    p2p_sequence: int
    operation: int
    name: int
    created: int
    timeout: int
    is_p2p: int
    inputs: int
    outputs: int
    sizes: int
    thread: int
    retired: int


class RecorderLayout(Struct, frozen=True, kw_only=True):
    """Offsets in a recorder, in bytes.

    Attributes:
        size: how much of a recorder is read.
        entries: its entries (std::vector<Entry>: first, last, end of capacity).
        most: how many there are at most (size_t).
        next: where in them the next one goes once there are so many (size_t).
        count: the number of the next entry (size_t).
    """

    size: int
    entries: int
    most: int
    next: int
    count: int
    entry: EntryLayout


_SINCE_2_13: Final = RecorderLayout(
    size=96,
    entries=48,
    most=72,
    next=80,
    count=88,
    entry=EntryLayout(
        size=512,
        record=0,
        instance=16,
        description=24,
        group=56,
        sequence=88,
        p2p_sequence=96,
        operation=104,
        name=112,
        created=176,
        timeout=184,
        is_p2p=192,
        inputs=240,
        outputs=312,
        sizes=384,
        thread=464,
        retired=504,
    ),
)

_LAYOUTS: Final = dict.fromkeys(((2, 13), (2, 14), (2, 15)), _SINCE_2_13)

RECORDERS: Final = {
    "libtorch_cpu.so": ("_ZZN4c10d14FlightRecorderIN3c105EventEE3getEvE8instance",),
    "libtorch_cuda.so": (
        "_ZZN4c10d14FlightRecorderIN2at4cuda9CUDAEventEE3getEvE8instance",
        "_ZZN4c10d14FlightRecorderIN3c104cuda9CUDAEventEE3getEvE8instance",  # 2.15
    ),
}
"""The variable that points to the recorder, by the library that has it: of gloo and others on the CPU, and of NCCL."""

_VERSION: Final = lazy_re(r"""^__version__\s*=\s*['"](\d+)\.(\d+)""", re.MULTILINE)


def layout_of(version: tuple[int, int]) -> RecorderLayout | None:
    """The layout of a version of torch; None where it is not known."""
    return _LAYOUTS.get(version)


def version_in(text: str) -> tuple[int, int] | None:
    """The version that the text of torch/version.py has; None where it has none."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2])) if found is not None else None
