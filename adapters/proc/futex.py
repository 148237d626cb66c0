"""Classify what a thread in futex(2) waits for, from the call's arguments and the memory around the word.

Pure: bytes in, description out. Sources: glibc 2.36 nptl/ (pthread_mutex_lock.c, pthread_rwlock_common.c,
pthread_cond_wait.c, sem_waitcommon.c, pthread_barrier_wait.c, pthread_join_common.c), Linux kernel/futex/.
How each object shows:

    join        WAIT_BITSET, shared, value = the word = tid of a live thread
    PI mutex    LOCK_PI (kernel ABI: the word holds the owner)
    robust      WAIT, value has FUTEX_WAITERS, the word holds the owner
    mutex       WAIT (timed: WAIT_BITSET), value 2, owner 8 bytes further on
    rwlock      WAIT_BITSET, value 2 or 3, word 8 (readers) or 12 bytes (writers) into the lock
    semaphore   WAIT_BITSET, value 0, number of waiters in the word behind it
    barrier     WAIT, value = round, which is the second word of the barrier
    condition   WAIT_BITSET on one of its two signal words
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.linux.abi import COND_LAYOUTS, MutexLayout, RwlockLayout
from livedbg.linux.procfs import BlockedSyscall
from livedbg.text.wording import many

AROUND: Final = 48
"""Bytes of memory before and behind the futex word that `classify` looks at."""

# linux/futex.h
_WAIT, _LOCK_PI, _WAIT_BITSET, _LOCK_PI2 = 0, 6, 9, 13
_PRIVATE: Final = 0x80
_FUTEX_WAITERS: Final = 0x8000_0000
_TID_MASK: Final = 0x3FFF_FFFF
_OWNER_DIED: Final = 0x4000_0000

_KINDS: Final = ("normal", "recursive", "error-checking", "adaptive")
_ROBUST, _PI, _PP, _PSHARED = 16, 32, 64, 128  # nptl/pthreadP.h
_PID_MAX: Final = 1 << 22
_CONTENDED: Final = 2
_MANY: Final = 65_536
_MUTEX: Final = MutexLayout()
_RWLOCK: Final = RwlockLayout()


class FutexCall(NamedTuple):
    """The arguments of one futex(2) call.

    Attributes:
        command: FUTEX_WAIT and so on, without flags.
        shared: other processes may share the word (FUTEX_PRIVATE_FLAG is not set).
        timed: the call has a time limit.
    """

    address: int
    command: int
    value: int
    shared: bool
    timed: bool
    sp: int

    @classmethod
    def of(cls, call: BlockedSyscall) -> FutexCall:
        """Decode the arguments shown by /proc/PID/task/TID/syscall."""
        address, operation, value, timeout = call.args[:4]
        command = operation & 0x7F
        return cls(address, command, value & 0xFFFF_FFFF, not operation & _PRIVATE, timeout != 0, call.sp)


class FutexWait(Struct, frozen=True):
    """The object that a futex call waits on.

    Attributes:
        kind: `mutex`, `rwlock`, `cond`, `sem`, `barrier`, `join`, `parked` or `futex`.
        address: of the object that contains the word.
        waits_in: the library call that a user knows.
        owner: the holding thread, in the process's own numbering; None if not known.
        state: the meaning of the object's words, for users.
        evidence: the words that were read.
        inferred: concluded from the shape of the memory only.
        ended_owner: the thread named by the owner word, if it isn't alive.
        contended: the word is 2, and the call waits while it is: a lock that others wait for, as most who make one of
            their own count (Ulrich Drepper, Futexes Are Tricky: 0 free, 1 locked, 2 others wait).
    """

    kind: str
    address: int
    waits_in: str
    evidence: str
    owner: int | None = None
    state: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    inferred: bool = False
    ended_owner: int | None = None
    contended: bool = False


IsThread = Callable[[int], bool]


def classify(
    call: FutexCall, memory: bytes | None, is_thread: IsThread, *, glibc: bool = True, parks: bool = True
) -> FutexWait:
    """Classify a futex wait.

    Args:
        memory: from AROUND bytes before the word to AROUND bytes after its start; None if it can't be read.
        is_thread: returns whether a number is that of a live thread that could hold this lock.
        glibc: glibc's layouts of lock types apply.
        parks: `parked` is a possible result.
    """
    if memory is None or len(memory) < 2 * AROUND:
        return _plain(call, None)
    words = _Words(memory)
    found = _by_kernel_abi(call, words, is_thread)
    if found is None and glibc:
        for recognise in (*((_parked,) if parks else ()), _mutex, _rwlock, _semaphore, _barrier, _condition):
            found = recognise(call, words, is_thread)
            if found is not None:
                break
    return found if found is not None else _plain(call, words)


class _Words:
    """The memory around the futex word, by offset from it."""

    def __init__(self, memory: bytes) -> None:
        self._memory = memory

    def __getitem__(self, offset: int) -> int:
        (value,) = struct.unpack_from("<I", self._memory, AROUND + offset)
        return int(value)


def _plain(call: FutexCall, words: _Words | None) -> FutexWait:
    value = f", word = {words[0]:#x}" if words is not None else ""
    evidence = f"futex {call.address:#x} waits while = {call.value:#x}{value}"
    contended = words is not None and call.command in (_WAIT, _WAIT_BITSET) and call.value == words[0] == _CONTENDED
    return FutexWait("futex", call.address, "futex wait", evidence, contended=contended)


def _by_kernel_abi(call: FutexCall, words: _Words, is_thread: IsThread) -> FutexWait | None:
    """Classify a wait whose owner follows from the kernel's own ABI, whatever the C library."""
    word = words[0]
    owner = word & _TID_MASK
    if call.command in (_LOCK_PI, _LOCK_PI2):
        return _owned(call, words, owner, "PI", is_thread)
    plain = call.command in (_WAIT, _WAIT_BITSET) and owner < _PID_MAX
    waits_for_owner = plain and call.value & word & _FUTEX_WAITERS
    robust = words[_MUTEX.kind] < 1024 and words[_MUTEX.kind] & _ROBUST
    if waits_for_owner and (robust or (owner and is_thread(owner))):
        return _owned(call, words, owner, "robust" if robust else "owner word", is_thread)
    if call.command == _WAIT_BITSET and call.shared and call.value == word and is_thread(word):
        evidence = f"futex {call.address:#x} (tid word of a thread) = {word}"
        return FutexWait("join", call.address, "pthread_join", evidence, owner=word)
    return None


def _owned(call: FutexCall, words: _Words, owner: int, sort: str, is_thread: IsThread) -> FutexWait:
    """Return the wait for a lock whose futex word is its owner's tid."""
    kind = words[_MUTEX.kind]
    known = is_thread(owner)
    attributes = {"kind": f"{sort}, {_kind_name(kind)}" if kind < 1024 else sort}
    if words[0] & _OWNER_DIED:
        attributes["owner died"] = "yes"
    return FutexWait(
        "mutex",
        call.address,
        _lock_call(call),
        f"{sort} futex {call.address:#x} = {words[0]:#x}, owner {owner}",
        owner=owner if known else None,
        ended_owner=owner if owner and not known else None,
        state="locked",
        attributes=attributes,
    )


def _lock_call(call: FutexCall) -> str:
    return "pthread_mutex_timedlock" if call.timed else "pthread_mutex_lock"


def _kind_name(kind: int) -> str:
    name = _KINDS[kind & 3]
    return f"{name}, process-shared" if kind & _PSHARED else name


def _parked(call: FutexCall, words: _Words, _is_thread: IsThread) -> FutexWait | None:
    """Recognise a thread that glibc parked.

    glibc parks a thread for ever on a word of its own stack when the kernel answers EDEADLK to LOCK_PI
    (pthread_mutex_lock.c, "Delay the thread indefinitely"). A user's own object on the stack looks the same.
    """
    zero = call.value == 0 and words[0] == 0
    if zero and call.command == _WAIT_BITSET and not call.timed and 0 <= call.address - call.sp < 512:
        evidence = f"parked on its own stack ({call.address:#x}): the kernel found a cycle of PI mutexes (EDEADLK)"
        return FutexWait("parked", call.address, "pthread_mutex_lock", evidence, inferred=True)
    return None


def _mutex(call: FutexCall, words: _Words, is_thread: IsThread) -> FutexWait | None:
    if call.command not in (_WAIT, _WAIT_BITSET):
        return None
    owner, users, kind = words[_MUTEX.owner], words[_MUTEX.users], words[_MUTEX.kind]
    protected = bool(kind & _PP) and call.value & 0x7FFFF == 2  # priority ceiling in the upper bits
    if kind >= 1024 or not (call.value == 2 or protected) or not 0 < owner < _PID_MAX or not 0 < users < _MANY:
        return None
    known = is_thread(owner)
    if not known and call.command == _WAIT_BITSET:
        return None  # more likely a rwlock
    attributes = {"kind": _kind_name(kind)}
    if kind & 3 == 1:
        attributes["lock count"] = str(words[_MUTEX.count])
    return FutexWait(
        "mutex",
        call.address,
        _lock_call(call),
        f"mutex {call.address:#x} owner word = {owner}, lock word = {words[0]}",
        owner=owner if known else None,
        ended_owner=owner if not known else None,
        state="locked" if words[0] else "unlocked",
        attributes=attributes,
    )


def _rwlock(call: FutexCall, words: _Words, is_thread: IsThread) -> FutexWait | None:
    if call.command != _WAIT_BITSET or call.value not in (2, 3) or words[0] > 3:
        return None
    for at, side in ((_RWLOCK.phase_futex, "rd"), (_RWLOCK.writers_futex, "wr")):
        base = -at
        readers, writers = words[base + _RWLOCK.readers], words[base + _RWLOCK.writers]
        writer, shared = words[base + _RWLOCK.current_writer], words[base + _RWLOCK.shared]
        held_by_writer = bool(writer) and is_thread(writer)
        padding = words[base + 16] == 0 and words[base + 20] == 0
        if shared > 1 or not padding or not (held_by_writer or (writer == 0 and (readers or writers))):
            continue
        if at == _RWLOCK.phase_futex and call.value == 2:
            side = "wr"  # noqa: PLW2901 (the first writer, who waits for the readers to leave)
        count = readers >> 3
        if side == "rd" and not count:  # a reader that waits counts itself: these are the words of a waiting writer
            continue
        attributes = {"readers": str(count), "waiting writers": str(writers & 0x3FFF_FFFF)}
        return FutexWait(
            "rwlock",
            call.address + base,
            f"pthread_rwlock_{'timed' if call.timed else ''}{side}lock",
            f"rwlock {call.address + base:#x} current writer = {writer}, readers = {count}",
            owner=writer if held_by_writer else None,
            state="held by a writer" if held_by_writer else f"held by {many(count, 'reader')}",
            attributes=attributes,
        )
    return None


def _semaphore(call: FutexCall, words: _Words, _is_thread: IsThread) -> FutexWait | None:
    waiters, private = words[4], words[8]
    if call.command != _WAIT_BITSET or call.value != 0 or words[0] != 0 or private not in (0, 128):
        return None
    if not 0 < waiters < _MANY or (private == 128) != call.shared:
        return None
    return FutexWait(
        "sem",
        call.address,
        "sem_timedwait" if call.timed else "sem_wait",
        f"semaphore {call.address:#x} value = 0, waiters = {waiters}",
        state="0 free",
        attributes={"waiters": str(waiters)},
        inferred=True,
    )


def _barrier(call: FutexCall, words: _Words, _is_thread: IsThread) -> FutexWait | None:
    """Recognise struct pthread_barrier {in, current_round, count, shared, out}; the wait is on current_round."""
    arrived = words[-4] - words[0]
    count, shared = words[4], words[8]
    if call.command != _WAIT or call.value != words[0] or shared not in (0, 128) or (shared == 128) != call.shared:
        return None
    if not 0 < arrived < count < _MANY:
        return None
    return FutexWait(
        "barrier",
        call.address - 4,
        "pthread_barrier_wait",
        f"barrier {call.address - 4:#x} arrived = {arrived} of {count}",
        state=f"{arrived} of {count} arrived",
        attributes={"arrived": str(arrived), "needed": str(count)},
        inferred=True,
    )


def _condition(call: FutexCall, words: _Words, _is_thread: IsThread) -> FutexWait | None:
    if call.command != _WAIT_BITSET:
        return None
    for layout in COND_LAYOUTS:
        if layout.waits_for_zero and call.value != 0:
            continue
        for at in layout.signals:
            references = words[layout.wrefs - at]
            shared = bool(references & 1) == call.shared  # __PTHREAD_COND_SHARED_MASK
            aligned = (call.address - at) % 8 == 0
            if aligned and shared and 0 < references >> 3 < _MANY and _sequence_fits(words, at):
                count = references >> 3
                return FutexWait(
                    "cond",
                    call.address - at,
                    "pthread_cond_timedwait" if call.timed else "pthread_cond_wait",
                    f"condition variable {call.address - at:#x} waiters = {count} (layout of glibc {layout.name})",
                    state=f"{many(count, 'waiter')}",
                    attributes={"waiters": str(count)},
                    inferred=True,
                )
    return None


def _sequence_fits(words: _Words, at: int) -> bool:
    """Check that `__wseq` (twice the waits begun) is ahead of `__g1_start` (twice the waits of older groups)."""
    wseq = words[-at] | words[4 - at] << 32
    start = words[8 - at] | words[12 - at] << 32
    return wseq >> 1 >= start >> 1 and wseq > 1
