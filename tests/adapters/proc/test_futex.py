"""Classification of futex words from bytes: layouts that this machine's glibc doesn't have, and any bytes."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.proc.futex import AROUND, FutexCall, classify
from livedbg.linux.procfs import BlockedSyscall

PRIVATE, WAIT, WAIT_BITSET, LOCK_PI = 0x80, 0, 9, 6


def call(address: int, operation: int, value: int, timeout: int = 0) -> FutexCall:
    """A futex call."""
    return FutexCall.of(BlockedSyscall(202, (address, operation, value, timeout, 0, 0xFFFFFFFF), 0x7000, 0x1000))


def around(base: int, words: dict[int, int]) -> bytes:
    """The memory around the futex word; `words` by offset from the object, which starts `base` before it."""
    memory = bytearray(2 * AROUND)
    for offset, value in words.items():
        struct.pack_into("<I", memory, AROUND - base + offset, value)
    return bytes(memory)


def test_condition_variable_of_glibc_2_41() -> None:
    """bits/thread-shared-types.h of 2.41: wseq, g1_start, g_size[2], g1_orig_size, wrefs, g_signals[2]."""
    memory = around(32, {0: 2, 28: 8})
    found = classify(call(0x5020, WAIT_BITSET | PRIVATE, 0), memory, lambda tid: False)
    assert (found.kind, found.address) == ("cond", 0x5000)
    assert "2.41" in found.evidence


def test_condition_variable_of_glibc_2_36() -> None:
    memory = around(40, {0: 2, 16: 2, 36: 8})
    found = classify(call(0x5028, WAIT_BITSET | PRIVATE, 0), memory, lambda tid: False)
    assert (found.kind, found.address) == ("cond", 0x5000)


def test_an_unknown_libc_gives_a_plain_futex_but_pi_locks_are_the_kernel_s() -> None:
    memory = around(0, {0: 2, 8: 77, 12: 1, 16: 0})
    assert classify(call(0x5000, PRIVATE, 2), memory, lambda tid: tid == 77).owner == 77
    assert classify(call(0x5000, PRIVATE, 2), memory, lambda tid: tid == 77, glibc=False).kind == "futex"
    held = around(0, {0: 77})
    found = classify(call(0x5000, LOCK_PI | PRIVATE, 0), held, lambda tid: tid == 77, glibc=False)
    assert (found.kind, found.owner) == ("mutex", 77)


def test_memory_that_cant_be_read_gives_a_plain_futex() -> None:
    assert classify(call(0x5000, PRIVATE, 2), None, lambda tid: True).kind == "futex"


def test_a_robust_mutex_whose_owner_died() -> None:
    memory = around(0, {0: 0xC000004D, 8: 77, 12: 1, 16: 16})
    found = classify(call(0x5000, WAIT, 0xC000004D), memory, lambda tid: False)
    assert (found.kind, found.owner) == ("mutex", None)
    assert found.attributes["owner died"] == "yes"


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=2 * AROUND, max_size=2 * AROUND),
    st.booleans(),
)
def test_any_bytes_give_something_and_only_live_owners(operation: int, value: int, memory: bytes, live: bool) -> None:
    found = classify(call(0x5000, operation, value), memory, lambda tid: live)
    assert found.kind in {"mutex", "rwlock", "cond", "sem", "barrier", "join", "parked", "futex"}
    assert found.owner is None or live
    assert found.evidence
