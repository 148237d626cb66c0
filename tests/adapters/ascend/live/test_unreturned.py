"""What a core was last given, read from memory laid out as the scheduler leaves it: our own."""

from __future__ import annotations

import ctypes
import os
import struct

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.layout import Layout, Place
from livedbg.adapters.ascend.live.scene import Unreturned, func_at, read_unreturned
from livedbg.adapters.ascend.live.slots import Image
from livedbg.linux.maps import Mapping

LAYOUT = Layout(
    0,
    {
        "executor.dispatched": Place(64, 32, length=24, target="dispatched", target_size=32),
        "dispatched.function": Place(0, 8),
        "dispatched.task": Place(16, 8),
    },
)
KERNELS = (
    Mapping(0x1000, 0x2000, "r-xp", 0, "fe:00", 1, "/tmp/kernel_2_LRyJAM", True),
    Mapping(0x2000, 0x3000, "r-xp", 0, "fe:00", 2, "/tmp/kernel_0_KwaS38", True),
    Mapping(0x3000, 0x4000, "r-xp", 0, "fe:00", 3, "/usr/lib/libc.so.6", False),
)
FIN, IDLE = 0x8000_0000, 0xFFFF_FFFF


def test_the_record_that_the_acknowledged_number_names_is_read() -> None:
    executor = ctypes.create_string_buffer(64 + 2 * 24 * 32)
    for index, function, task in ((20, 0x2010, 4), (21, 0x1010, (1 << 32) | 2), (4, 0x3010, 7)):
        struct.pack_into("<Q8xQ", executor, 64 + index * 32, function, task)
    registers = [ctypes.create_string_buffer(0x500) for _ in range(4)]
    for cell, number in zip(registers, (3, FIN | 2, IDLE, 8), strict=True):
        struct.pack_into("<I", cell, 0x4C8, number)
    cores = (10, 11, 12, 2)
    threads = {
        100 + core: CoreThread(core, ctypes.addressof(cell)) for core, cell in zip(cores, registers, strict=True)
    }
    threads[300] = CoreThread(5, 0x10)  # registers that can't be read
    image = Image(os.getpid())
    assert read_unreturned(image, LAYOUT, ctypes.addressof(executor), threads, KERNELS) == [
        Unreturned(102, 2, 7, None),  # what it was given is no kernel's code
        Unreturned(110, 10, (1 << 32) | 2, 2),
    ]
    bare = Layout(0, {})
    found = read_unreturned(image, bare, ctypes.addressof(executor), threads, KERNELS)
    assert [(one.core, one.task, one.func) for one in found] == [(2, None, None), (10, None, None)]


def test_code_of_kernels_and_other_code() -> None:
    assert [func_at(address, KERNELS) for address in (0x1000, 0x1FFF, 0x2000, 0x3000, 0x9000)] == [2, 2, 0, None, None]
