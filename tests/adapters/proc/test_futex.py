"""Classification of futex words from bytes: layouts that this machine's glibc doesn't have, and any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.proc.futex import AROUND, FutexCall, FutexWait, classify
from livedbg.linux.procfs import BlockedSyscall

PRIVATE, WAIT, FD, WAIT_BITSET, LOCK_PI = 0x80, 0, 2, 9, 6


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


@pytest.mark.parametrize(
    ("operation", "value", "word", "contended"),
    [
        (WAIT | PRIVATE, 2, 2, True),
        (WAIT_BITSET, 2, 2, True),  # Rust's mutex
        (WAIT, 2, 0, False),  # it is free by now
        (WAIT, 1, 1, False),  # a parked worker, as a flag
        (WAIT, 3, 3, False),
        (FD, 2, 2, False),
    ],
)
def test_a_lock_of_a_program_s_own_says_that_others_wait(
    operation: int, value: int, word: int, contended: bool
) -> None:
    found = classify(call(0x5000, operation, value), around(0, {0: word}), lambda tid: False)
    assert (found.kind, found.contended) == ("futex", contended)


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


MANY, PID_MAX = 65_536, 1 << 22


def live(number: int) -> bool:
    """Threads 70 to 79 are alive."""
    return 70 <= number < 80


def kind_of(operation: int, value: int, words: dict[int, int], base: int = 0, *, timed: bool = False) -> str:
    """What a wait at 0x5000 is taken for; `words` by offset from the object, whose word `base` the thread waits on."""
    return classify(call(0x5000, operation, value, int(timed)), around(base, words), live).kind


MUTEX = {0: 2, 8: 77, 12: 1, 16: 0}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "mutex"),
        ({8: PID_MAX - 1}, "mutex"),
        ({8: PID_MAX}, "futex"),
        ({8: 0}, "futex"),
        ({8: 1}, "mutex"),
        ({12: 0}, "futex"),
        ({12: MANY - 1}, "mutex"),
        ({12: MANY}, "futex"),
        ({16: 1023}, "mutex"),
        ({16: 1024}, "futex"),
        ({0: 0}, "mutex"),
    ],
)
def test_a_mutex_has_a_possible_owner_users_and_kind(change: dict[int, int], kind: str) -> None:
    assert kind_of(WAIT | PRIVATE, 2, MUTEX | change) == kind


@pytest.mark.parametrize(("operation", "value", "kind"), [(WAIT, 2, "mutex"), (WAIT, 1, "futex"), (WAIT, 3, "futex")])
def test_who_waits_for_a_mutex_waits_while_its_word_is_2(operation: int, value: int, kind: str) -> None:
    assert kind_of(operation | PRIVATE, value, MUTEX) == kind


def test_a_mutex_says_its_kind_its_count_and_whether_it_is_locked() -> None:
    def found(change: dict[int, int], timeout: int = 0) -> FutexWait:
        return classify(call(0x5000, WAIT | PRIVATE, 2, timeout), around(0, MUTEX | {4: 5} | change), live)

    assert (found({}).attributes, found({}).state) == ({"kind": "normal"}, "locked")
    assert found({16: 1}).attributes == {"kind": "recursive", "lock count": "5"}
    assert found({16: 2}).attributes == {"kind": "error-checking"}
    assert found({16: 3 | 128}).attributes == {"kind": "adaptive, process-shared"}
    assert found({8: 99}).ended_owner == 99
    assert (found({8: 99}).owner, found({}).owner) == (None, 77)
    assert found({0: 0}).state == "unlocked"
    assert (found({}).waits_in, found({}, 1).waits_in) == ("pthread_mutex_lock", "pthread_mutex_timedlock")
    assert found({}).evidence == "mutex 0x5000 owner word = 77, lock word = 2"
    assert not found({}).inferred  # the owner is a living thread


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [(64, 0x80002, "mutex"), (64, 0x80001, "futex"), (64, 0x80003, "futex"), (0, 0x80002, "futex"), (64, 2, "mutex")],
)
def test_a_mutex_with_a_priority_ceiling_has_it_in_its_upper_bits(kind: int, value: int, found: str) -> None:
    assert kind_of(WAIT | PRIVATE, value, MUTEX | {0: value, 16: kind}) == found


def test_a_bitset_wait_on_the_word_of_a_mutex_needs_a_living_owner() -> None:
    assert kind_of(WAIT_BITSET | PRIVATE, 2, MUTEX) == "mutex"
    assert kind_of(WAIT_BITSET | PRIVATE, 2, MUTEX | {8: 99}) != "mutex"


@pytest.mark.parametrize(
    ("word", "value", "mutex_kind", "kind"),
    [
        (0x8000004D, 0x8000004D, 0, "mutex"),  # 77 owns it, and others wait
        (0x8000004D, 0x8000004D, 2048, "mutex"),
        (0x0000004D, 0x0000004D, 0, "futex"),  # nobody is said to wait
        (0x8000004D, 0x0000004D, 0, "futex"),
        (0x0000004D, 0x8000004D, 0, "futex"),
        (0x80000063, 0x80000063, 0, "futex"),  # 99 is no thread
        (0x80000063, 0x80000063, 16, "mutex"),  # but of a robust mutex
        (0x80000063, 0x80000063, 1023, "mutex"),
        (0x80000063, 0x80000063, 1024 + 16, "futex"),
        (0x80000000, 0x80000000, 0, "futex"),
        (0x80000000 | PID_MAX, 0x80000000 | PID_MAX, 16, "futex"),
    ],
)
def test_an_owner_word_names_a_thread_and_says_that_others_wait(
    word: int, value: int, mutex_kind: int, kind: str
) -> None:
    assert kind_of(WAIT | PRIVATE, value, {0: word, 16: mutex_kind}) == kind
    assert kind_of(WAIT_BITSET | PRIVATE, value, {0: word, 16: mutex_kind}) == kind
    assert kind_of(1 | PRIVATE, value, {0: word, 16: mutex_kind}) == "futex"


@pytest.mark.parametrize("operation", [LOCK_PI, 13])
def test_the_kernel_knows_the_owner_of_a_pi_lock(operation: int) -> None:
    found = classify(call(0x5000, operation | PRIVATE, 0), around(0, {0: 77, 16: 32 + 1}), live)
    assert (found.kind, found.owner, found.attributes) == ("mutex", 77, {"kind": "PI, recursive"})
    found = classify(call(0x5000, operation | PRIVATE, 0), around(0, {0: 99, 16: 1024}), live)
    assert (found.owner, found.ended_owner, found.attributes) == (None, 99, {"kind": "PI"})
    assert "owner" not in classify(call(0x5000, operation, 0), around(0, {0: 0}), live).attributes


@pytest.mark.parametrize(
    ("operation", "value", "word", "kind"),
    [
        (WAIT_BITSET, 77, 77, "join"),
        (WAIT_BITSET | PRIVATE, 77, 77, "futex"),
        (WAIT, 77, 77, "futex"),
        (WAIT_BITSET, 77, 78, "futex"),
        (WAIT_BITSET, 99, 99, "futex"),
    ],
)
def test_a_join_waits_on_the_shared_tid_word_of_a_living_thread(
    operation: int, value: int, word: int, kind: str
) -> None:
    found = classify(call(0x5000, operation, value), around(0, {0: word}), live)
    assert (found.kind, found.owner) == (kind, 77 if kind == "join" else None)


@pytest.mark.parametrize(
    ("above", "operation", "timed", "words", "parked"),
    [
        (0, WAIT_BITSET, False, (0, 0), True),
        (511, WAIT_BITSET, False, (0, 0), True),
        (512, WAIT_BITSET, False, (0, 0), False),
        (-1, WAIT_BITSET, False, (0, 0), False),
        (16, WAIT, False, (0, 0), False),
        (16, WAIT_BITSET, True, (0, 0), False),
        (16, WAIT_BITSET, False, (1, 0), False),  # glibc parks on a word that stays 0
        (16, WAIT_BITSET, False, (0, 1), False),
    ],
)
def test_a_parked_thread_waits_on_a_word_of_its_own_stack(
    above: int, operation: int, timed: bool, words: tuple[int, int], parked: bool
) -> None:
    found = classify(call(0x7000 + above, operation | PRIVATE, words[0], int(timed)), around(0, {0: words[1]}), live)
    assert (found.kind == "parked") == parked
    assert found.inferred or not parked


def test_a_thread_that_is_not_parked_may_wait_for_a_condition_variable_on_its_stack() -> None:
    memory = around(40, {0: 2, 16: 2, 36: 8})
    assert classify(call(0x7028, WAIT_BITSET | PRIVATE, 0), memory, live).kind == "parked"
    assert classify(call(0x7028, WAIT_BITSET | PRIVATE, 0), memory, live, parks=False).kind == "cond"


RWLOCK = {0: 9, 4: 1, 8: 3, 12: 3, 16: 0, 20: 0, 24: 77, 28: 0}
"""pthread_rwlock_t of glibc: readers, writers, phase futex, writers futex, padding, current writer, shared."""


@pytest.mark.parametrize(
    ("change", "at", "value", "found"),
    [
        ({}, 8, 3, "pthread_rwlock_rdlock of 77"),
        ({}, 8, 2, "pthread_rwlock_wrlock of 77"),
        ({}, 12, 3, "pthread_rwlock_wrlock of 77"),
        ({28: 1}, 8, 3, "pthread_rwlock_rdlock of 77"),
        ({28: 2}, 8, 3, "nothing"),
        ({16: 1}, 8, 3, "nothing"),
        ({20: 1}, 8, 3, "nothing"),
        ({16: 1 << 24}, 8, 3, "nothing"),
        ({20: 1 << 24}, 8, 3, "nothing"),
        ({24: 99}, 8, 3, "nothing"),
        ({24: 0, 0: 16}, 8, 3, "pthread_rwlock_rdlock of None"),
        ({0: 0}, 8, 3, "nothing"),  # a reader that waits counts itself
        ({24: 0, 0: 24, 4: 3}, 12, 3, "pthread_rwlock_wrlock of None"),  # behind the first writer
        ({24: 0, 0: 0, 4: 0}, 8, 3, "nothing"),
        ({8: 4}, 8, 3, "nothing"),
        ({8: 1}, 8, 3, "pthread_rwlock_rdlock of 77"),
        ({8: 2}, 8, 3, "pthread_rwlock_rdlock of 77"),
        ({8: 0}, 8, 3, "pthread_rwlock_rdlock of 77"),
        ({}, 8, 1, "nothing"),
        ({}, 8, 4, "nothing"),
    ],
)
def test_a_rwlock_is_held_by_its_writer_or_by_readers(change: dict[int, int], at: int, value: int, found: str) -> None:
    wait = classify(call(0x5000 + at, WAIT_BITSET | PRIVATE, value), around(at, RWLOCK | change), live)
    assert (f"{wait.waits_in} of {wait.owner}" if wait.kind == "rwlock" else "nothing") == found
    assert wait.kind != "rwlock" or wait.address == 0x5000


def test_a_rwlock_says_how_many_read_it_and_wait_to_write_it() -> None:
    words = RWLOCK | {0: 2 << 3 | 7, 4: 0x40000003, 24: 0}
    found = classify(call(0x5008, WAIT_BITSET | PRIVATE, 3, 1), around(8, words), live)
    assert (found.waits_in, found.state) == ("pthread_rwlock_timedrdlock", "held by 2 readers")
    assert found.attributes == {"readers": "2", "waiting writers": "3"}
    assert classify(call(0x5008, WAIT_BITSET | PRIVATE, 3), around(8, RWLOCK), live).state == "held by a writer"


@pytest.mark.parametrize(
    ("operation", "value", "words", "kind"),
    [
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: 1, 8: 0}, "sem"),
        (WAIT_BITSET, 0, {0: 0, 4: 1, 8: 128}, "sem"),
        (WAIT_BITSET, 0, {0: 0, 4: 1, 8: 0}, "futex"),
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: 1, 8: 128}, "futex"),
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: 1, 8: 1}, "futex"),
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: 0, 8: 0}, "futex"),
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: MANY - 1, 8: 0}, "sem"),
        (WAIT_BITSET | PRIVATE, 0, {0: 0, 4: MANY, 8: 0}, "futex"),
        (WAIT_BITSET | PRIVATE, 0, {0: 1, 4: 1, 8: 0}, "futex"),
        (WAIT_BITSET | PRIVATE, 1, {0: 0, 4: 1, 8: 0}, "futex"),
        (WAIT | PRIVATE, 0, {0: 0, 4: 1, 8: 0}, "futex"),
    ],
)
def test_a_semaphore_has_no_value_and_some_waiters(
    operation: int, value: int, words: dict[int, int], kind: str
) -> None:
    assert kind_of(operation, value, words) == kind
    if kind == "sem":
        found = classify(call(0x5000, operation, value, 1), around(0, words), live)
        assert (found.waits_in, found.attributes) == ("sem_timedwait", {"waiters": str(words[4])})


BARRIER = {0: 12, 4: 10, 8: 5, 12: 0}
"""pthread_barrier of glibc: in, current round, count, shared; two of five have arrived."""


@pytest.mark.parametrize(
    ("operation", "change", "kind"),
    [
        (WAIT | PRIVATE, {}, "barrier"),
        (WAIT, {12: 128}, "barrier"),
        (WAIT | PRIVATE, {12: 128}, "futex"),
        (WAIT, {}, "futex"),
        (WAIT | PRIVATE, {12: 1}, "futex"),
        (WAIT | PRIVATE, {0: 10}, "futex"),
        (WAIT | PRIVATE, {0: 11}, "barrier"),
        (WAIT | PRIVATE, {0: 14}, "barrier"),
        (WAIT | PRIVATE, {0: 15}, "futex"),
        (WAIT | PRIVATE, {8: MANY - 1}, "barrier"),
        (WAIT | PRIVATE, {8: MANY}, "futex"),
        (WAIT | PRIVATE, {4: 9}, "futex"),
        (WAIT_BITSET | PRIVATE, {}, "futex"),
    ],
)
def test_a_barrier_lacks_some_of_those_that_it_needs(operation: int, change: dict[int, int], kind: str) -> None:
    found = classify(call(0x5004, operation, 10), around(4, BARRIER | change), live)
    assert found.kind == kind
    if not change:
        words = (found.address, found.state, found.attributes)
        assert kind == "futex" or words == (0x5000, "2 of 5 arrived", {"arrived": "2", "needed": "5"})


@pytest.mark.parametrize(
    ("address", "operation", "change", "kind"),
    [
        (0x5028, WAIT_BITSET | PRIVATE, {}, "cond"),
        (0x502C, WAIT_BITSET | PRIVATE, {}, "futex"),
        (0x5028, WAIT_BITSET, {}, "futex"),
        (0x5028, WAIT_BITSET, {36: 9}, "cond"),
        (0x5028, WAIT | PRIVATE, {}, "futex"),
        (0x5028, WAIT_BITSET | PRIVATE, {36: 0}, "futex"),
        (0x5028, WAIT_BITSET | PRIVATE, {36: (MANY - 1) << 3}, "cond"),
        (0x5028, WAIT_BITSET | PRIVATE, {36: MANY << 3}, "futex"),
        (0x5028, WAIT_BITSET | PRIVATE, {0: 1, 8: 0}, "futex"),
        (0x5028, WAIT_BITSET | PRIVATE, {0: 4, 8: 4}, "cond"),
        (0x5028, WAIT_BITSET | PRIVATE, {0: 0, 4: 1, 8: 6}, "cond"),
    ],
)
def test_a_condition_variable_has_waiters_and_has_begun_more_waits_than_it_ended(
    address: int, operation: int, change: dict[int, int], kind: str
) -> None:
    """The layout until 2.40: wseq, g1_start, g_refs, g_size, g1_orig_size, wrefs, g_signals."""
    memory = around(40, {0: 2, 16: 2, 36: 8} | change)
    assert classify(call(address, operation, 0), memory, live).kind == kind


def test_a_condition_variable_says_how_many_wait_and_whether_with_a_limit() -> None:
    memory = around(40, {0: 2, 16: 2, 36: 3 << 3})
    found = classify(call(0x5028, WAIT_BITSET | PRIVATE, 0, 1), memory, live)
    assert (found.waits_in, found.state, found.inferred) == ("pthread_cond_timedwait", "3 waiters", True)
    assert classify(call(0x5028, WAIT_BITSET | PRIVATE, 0), memory, live).waits_in == "pthread_cond_wait"


def test_memory_that_is_too_short_is_not_looked_at() -> None:
    memory = around(0, MUTEX)
    assert classify(call(0x5000, PRIVATE, 2), memory[:-1], live).kind == "futex"
    assert classify(call(0x5000, PRIVATE, 2), memory, live).kind == "mutex"
    assert ", word = 0x2" in classify(call(0x5000, 1 | PRIVATE, 2), memory, live).evidence


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ({0: 4}, "cond"),
        ({0: 4, 8: 4}, "cond"),
        ({0: 4, 8: 5}, "cond"),
        ({0: 4, 8: 6}, "futex"),
        ({0: 4, 12: 1}, "futex"),
        ({0: 0xFFFFFFFE, 12: 1}, "futex"),
        ({4: 1, 8: 0xFFFFFFFE}, "cond"),
        ({0: 0, 4: 1, 8: 6}, "cond"),
        ({0: 0, 4: 1, 12: 1, 8: 2}, "futex"),
        ({0: 0, 4: 2, 12: 1}, "cond"),
        ({0: 1}, "futex"),
        ({0: 2}, "cond"),
    ],
)
def test_a_condition_variable_with_a_signal_word_that_is_not_0_is_of_the_layout_of_2_41(
    words: dict[int, int], kind: str
) -> None:
    memory = around(32, {28: 8, 32: 4} | words)
    assert classify(call(0x5020, WAIT_BITSET | PRIVATE, 4), memory, live).kind == kind
