"""The Flight Recorder in memory: rings of the known layout are read, and nothing is believed that makes no sense."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.aoti.settings import torch_version
from livedbg.adapters.pytorch.collectives.groups import own_rank
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, Recorder, Ring, find_recorders
from livedbg.adapters.pytorch.collectives.recorder_entry import LAYOUTS

LAYOUT = LAYOUTS[2, 13]
SIZE = LAYOUT.entry.size


class Memory:
    """A recorder in this process's own memory, as torch 2.13 has it."""

    def __init__(self, most: int = 8) -> None:
        self.entries = ctypes.create_string_buffer(most * SIZE)
        self.head = ctypes.create_string_buffer(LAYOUT.size)
        self.pointer = ctypes.create_string_buffer(8)
        self.kept: list[ctypes.Array[ctypes.c_char]] = []
        self.most = most
        self.put_head(0, 0, 0)
        struct.pack_into("<Q", self.pointer, 0, ctypes.addressof(self.head))
        self.recorder = Recorder(os.getpid(), ctypes.addressof(self.pointer), LAYOUT)

    def put_head(self, number: int, following: int, count: int) -> None:
        first = ctypes.addressof(self.entries)
        struct.pack_into("<3Q", self.head, LAYOUT.entries, first, first + number * SIZE, first + self.most * SIZE)
        for at, value in ((LAYOUT.most, self.most), (LAYOUT.next, following), (LAYOUT.count, count)):
            struct.pack_into("<Q", self.head, at, value)

    def text(self, at: int, text: str, *, was_long: bool = False) -> None:
        data = text.encode()
        where = ctypes.addressof(self.entries) + at + 16
        if len(data) > 15 or was_long:
            self.kept.append(ctypes.create_string_buffer(data))
            where = ctypes.addressof(self.kept[-1])
        else:
            self.entries[at + 16 : at + 16 + len(data)] = data
        struct.pack_into("<2Q", self.entries, at, where, len(data))

    def numbers(self, at: int, *numbers: int) -> None:
        where = ctypes.addressof(self.entries) + at + 16
        struct.pack_into("<QII", self.entries, at, where, len(numbers), 4)
        struct.pack_into(f"<{len(numbers)}q", self.entries, at + 16, *numbers)

    def entry(self, place: int, record: int, name: str = "gloo:all_reduce", *, done: bool = True) -> None:
        at, fields = place * SIZE, LAYOUT.entry
        for where, value in (
            (fields.record, record),
            (fields.instance, 3),
            (fields.sequence, record + 1),
            (fields.p2p_sequence, 0),
            (fields.created, time.time_ns()),
            (fields.timeout, 1_800_000),
            (fields.thread, 77),
        ):
            struct.pack_into("<Q", self.entries, at + where, value)
        self.text(at + fields.group, "1")
        self.text(at + fields.description, "dp")
        self.text(at + fields.name, name)
        self.numbers(at + fields.inputs, 2)
        self.numbers(at + fields.outputs, 1)
        self.numbers(at + fields.sizes, 3, 4, 12)
        self.entries[at + fields.is_p2p] = 0
        self.entries[at + fields.retired] = int(done)


def test_entries_are_read_with_their_names_and_shapes() -> None:
    memory = Memory()
    memory.entry(0, 0)
    memory.entry(1, 1, "nccl:_reduce_scatter_base", done=False)
    memory.put_head(2, 2, 2)
    ring = memory.recorder.read()
    assert ring is not None and (ring.count, ring.whole) == (2, True)
    first, second = ring.entries
    assert (first.name, first.backend, first.group, first.description) == ("all_reduce", "gloo", "1", "dp")
    assert (first.shapes, first.sequence, first.thread, first.done) == (((3, 4), (12,)), 1, 77, True)
    assert first.instance == 3
    assert (second.name, second.backend, second.done) == ("_reduce_scatter_base", "nccl", False)
    memory.entries[SIZE + LAYOUT.entry.retired] = 1
    again = memory.recorder.read()
    assert again is not None and again.entries[1].done


def test_a_ring_that_has_gone_round_is_in_the_order_of_its_records() -> None:
    memory = Memory(4)
    for place, record in enumerate((8, 9, 6, 7)):
        memory.entry(place, record)
    memory.put_head(4, 2, 10)
    ring = memory.recorder.read()
    assert ring is not None and [entry.record for entry in ring.entries] == [6, 7, 8, 9]
    assert not ring.whole


def test_a_short_name_where_a_long_one_was_is_in_the_memory_of_that() -> None:
    memory = Memory(1)
    memory.entry(0, 1, "gloo:barrier")
    memory.text(LAYOUT.entry.description, "default_pg", was_long=True)
    memory.put_head(1, 0, 2)
    ring = memory.recorder.read()
    assert ring is not None and [(entry.name, entry.description) for entry in ring.entries] == [
        ("barrier", "default_pg")
    ]


def test_a_process_that_has_recorded_nothing_has_no_ring() -> None:
    memory = Memory()
    struct.pack_into("<Q", memory.pointer, 0, 0)
    assert memory.recorder.read() is None


def test_a_ring_that_moved_while_it_was_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    memory.entry(0, 0)
    memory.put_head(1, 1, 1)
    whole = Recorder._read
    reads: list[Recorder] = []

    def moves_once(self: Recorder) -> Ring | None:
        reads.append(self)
        if len(reads) == 1:
            raise LayoutUnknown("it moved")
        return whole(self)

    monkeypatch.setattr(Recorder, "_read", moves_once)
    ring = memory.recorder.read()
    assert ring is not None and ring.count == 1 and len(reads) == 2


@pytest.mark.invariant("flight_recorder.C1")
def test_C1_a_ring_of_another_layout_is_not_believed() -> None:
    memory = Memory()
    for place in range(5):
        memory.entry(place, place)
        memory.text(place * SIZE + LAYOUT.entry.name, "\x01\x02")
    memory.put_head(5, 5, 5)
    with pytest.raises(LayoutUnknown, match="make no sense"):
        memory.recorder.read()
    memory.put_head(5, 9, 5)
    with pytest.raises(LayoutUnknown, match="does not look"):
        memory.recorder.read()


@pytest.mark.invariant("flight_recorder.C1")
def test_C1_one_bad_entry_costs_that_entry() -> None:
    memory = Memory()
    for place in range(4):
        memory.entry(place, place)
    struct.pack_into("<Q", memory.entries, SIZE + LAYOUT.entry.name + 8, 1 << 40)  # the length of its name
    memory.put_head(4, 4, 4)
    ring = memory.recorder.read()
    assert ring is not None and [entry.record for entry in ring.entries] == [0, 2, 3]


@pytest.mark.invariant("flight_recorder.C2")
def test_C2_a_record_that_is_there_twice_counts_once() -> None:
    """The recorder goes on while it is read: a place can have the next record already."""
    memory = Memory(4)
    for place, record in enumerate((4, 1, 2, 4)):
        memory.entry(place, record)
    memory.put_head(4, 1, 5)
    ring = memory.recorder.read()
    assert ring is not None and [entry.record for entry in ring.entries] == [1, 2, 4]


def test_a_process_without_torch_has_no_recorder_and_torch_without_a_known_version_says_so(
    tmp_path: Path,
) -> None:
    assert find_recorders(os.getppid()) == [] or os.getppid() == 1
    assert torch_version(tmp_path) == "as installed"
    (tmp_path / "version.py").write_text('import x\n__version__ = "2.13.0+cpu"\n')
    assert torch_version(tmp_path) == "2.13.0+cpu"
    assert LAYOUTS.get((1, 0)) is None
    assert LAYOUTS.get((2, 14)) == LAYOUTS.get((2, 15)) == LAYOUT


def head(at: int, *numbers: int) -> bytes:
    data = bytearray(96)
    struct.pack_into(f"<{len(numbers)}i", data, at, *numbers)
    return bytes(data)


def test_the_own_rank_is_what_all_groups_agree_on() -> None:
    groups = {"0": (0, 1, 2, 3), "5": (1, 3)}
    assert own_rank(groups, {"0": head(32, 3, 4), "5": head(32, 1, 2)}) == 3
    assert own_rank(groups, {"0": head(32, 3, 4), "5": head(32, 0, 2)}) is None  # the second says rank 1
    assert own_rank(groups, {"0": head(32, 3, 4), "5": b""}) == 3
    counts = struct.pack("<2i", 1, 2)  # of references, and of weak ones: no rank 1 of 2
    assert own_rank({"0": (0, 1)}, {"0": head(32, 0, 2)[:8] + counts + head(32, 0, 2)[16:]}) == 0
    assert own_rank({"5": (1, 3)}, {"5": head(32, 1, 2)}) is None
