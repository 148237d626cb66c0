"""What a futex wait becomes, from words in memory: who holds it, who could end it, and what is left open."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from livedbg.adapters.proc import wait_reader
from livedbg.adapters.proc.futex import AROUND
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.wait_reader import PARKED, LockWaits, resolve_parked
from livedbg.adapters.proc.waits import Holding, Wait, Waited, Wakers
from livedbg.linux import maps
from livedbg.linux.abi import Abi
from livedbg.linux.live_environment import Libc
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import Resource
from tests.adapters.proc.test_futex import LOCK_PI, PRIVATE, WAIT, WAIT_BITSET, around

PID, OTHER = 7, 8
STACK = 0x7000


class Memory:
    """The memory of a process, by address; what is not in it can't be read."""

    def __init__(self, *parts: tuple[int, bytes]) -> None:
        self.parts = parts
        self.asked: list[tuple[int, int]] = []

    def read(self, pid: int, address: int, size: int) -> bytes:
        (found,) = self.read_many(pid, [(address, size)])
        if found is None:
            raise OSError(14, "not mapped")
        return found

    def read_many(self, pid: int, requests: Sequence[tuple[int, int]]) -> list[bytes | None]:
        assert pid == PID
        self.asked += requests
        return [self._one(*request) for request in requests]

    def _one(self, address: int, size: int) -> bytes | None:
        for start, data in self.parts:
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        return None


class Numbers(ThreadNumbers):
    """Threads 70 to 79 of the process, and thread 90 of another one."""

    def __init__(self, gone_after: int = 1000) -> None:
        self.left = gone_after

    def find(self, number: int, *, elsewhere: bool) -> tuple[int, int] | None:
        self.left -= 1
        if self.left < 0:
            return None
        if 70 <= number < 80:
            return PID, number
        return (OTHER, 90) if elsewhere and number == 90 else None


class Shared(Scene):
    """A host whose shared objects go by what process 3 calls them."""

    def shared_identity(self, pid: int, address: int, mappings: object) -> tuple[int, int]:
        assert pid == PID
        return 3, address + 0x100


GLIBC, MUSL = Libc("glibc", (2, 36)), Libc("musl")
ABI = Abi("x86_64", 62, {}, 202, 0x2D0)


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has no memory but what a test gives it."""
    monkeypatch.setattr(wait_reader, "memory", Memory())


def waits(libc: Libc = GLIBC, numbers: Numbers | None = None, abi: Abi = ABI) -> LockWaits:
    return LockWaits(ProcessView(Shared("box"), PID, abi, libc, numbers or Numbers(), []))


def blocked(address: int, operation: int, value: int, timeout: int = 0) -> BlockedSyscall:
    return BlockedSyscall(202, (address, operation, value, timeout, 0, 0xFFFFFFFF), STACK, 0x1000)


def described(words: Mapping[int, int], operation: int = WAIT | PRIVATE, value: int = 2, timeout: int = 0) -> Wait:
    return waits().describe(blocked(0x5000, operation, value, timeout), around(0, dict(words)), 71)


MUTEX = {0: 2, 8: 77, 12: 1, 16: 0}


def test_the_memory_around_a_word_at_the_start_of_a_mapping_is_what_is_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, start = bytes(range(2 * AROUND)), bytes(range(100, 100 + AROUND))
    memory = Memory((0x5000 - AROUND, whole), (0x9000, start))
    monkeypatch.setattr(wait_reader, "memory", memory)
    calls = [blocked(at, WAIT, 2) for at in (0x9000, 0x5000, 0xDEAD00)]
    assert LockWaits.read_around(PID, calls) == [bytes(AROUND) + start, whole, None]
    assert (0x5000, AROUND) not in memory.asked  # it was there at the first time


@pytest.mark.parametrize(
    ("owner", "kind", "operation", "holders"),
    [
        (77, 0, WAIT | PRIVATE, ["thread:box/7/77"]),
        (99, 0, WAIT | PRIVATE, []),
        (90, 0, WAIT | PRIVATE, []),  # a thread of another process can't hold a private lock
        (90, 128, WAIT, ["thread:box/8/90"]),
        (77, 128, WAIT, ["thread:box/7/77"]),
    ],
)
def test_a_mutex_is_held_by_a_thread_that_can_have_it(
    owner: int, kind: int, operation: int, holders: list[str]
) -> None:
    [waited] = described(MUTEX | {8: owner, 16: kind}, operation).waited
    assert [holding.entity for holding in waited.holders] == holders
    assert not any(holding.inferred for holding in waited.holders)
    assert not waited.inferred


def test_a_private_word_is_woken_by_its_own_process_alone() -> None:
    wait = described(MUTEX)
    [waited] = wait.waited
    assert (wait.timed, wait.waits_in) == (False, "pthread_mutex_lock")
    assert waited.target == "mutex:box/7/0x5000"
    assert waited.resource is not None and waited.resource.name == "mutex 0x5000"
    assert (waited.resource.state, waited.resource.attributes) == ("locked", {"kind": "normal"})
    assert waited.wakers == Wakers(frozenset({PID}), None)
    assert described(MUTEX, timeout=1).timed


def test_a_shared_word_is_one_object_for_all_and_whoever_has_it_can_wake() -> None:
    [waited] = described(MUTEX | {16: 128}, WAIT).waited
    assert waited.target == "mutex:box/3/0x5100"
    assert waited.resource is not None and waited.resource.name == "mutex 0x5100"
    assert waited.wakers == Wakers(frozenset({PID}), 0x5000)  # as this process calls it: its mappings tell who has it


def test_a_c_library_whose_layouts_are_not_known_is_named() -> None:
    musl = waits(MUSL).describe(blocked(0x5000, WAIT | PRIVATE, 2), around(0, MUTEX), 71)
    [waited] = musl.waited
    assert waited.resource is not None and waited.holders == ()
    assert waited.resource.attributes == {"libc": "musl: layouts not known"}
    kernels = waits(MUSL).describe(blocked(0x5000, LOCK_PI | PRIVATE, 0), around(0, {0: 77, 16: 32}), 71)
    assert [holding.entity for holding in kernels.waited[0].holders] == ["thread:box/7/77"]


def test_a_join_waits_for_a_thread_and_its_process_can_end_it() -> None:
    wait = described({0: 77}, WAIT_BITSET, 77)
    [waited] = wait.waited
    assert (wait.waits_in, wait.timed) == ("pthread_join", False)
    assert (waited.target, waited.resource, waited.holders) == ("thread:box/7/77", None, ())
    assert waited.wakers == Wakers(frozenset({PID}), 0x5000)
    assert described({0: 77}, WAIT_BITSET, 77, 1).timed


def test_a_join_of_a_thread_that_ends_while_it_is_looked_at_waits_for_nothing() -> None:
    gone = waits(numbers=Numbers(gone_after=1)).describe(blocked(0x5000, WAIT_BITSET, 77), around(0, {0: 77}), 71)
    assert gone.waited == ()


PI = {0: 77, 8: 77, 12: 1, 16: 32}


def parked(
    words: Sequence[int], objects: Mapping[int, Mapping[int, int]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Memory, Wait]:
    """The wait of thread 71, which is parked with these words on its stack."""
    stack = struct.pack("<64Q", *words, *[0] * (64 - len(words)))
    memory = Memory(
        (STACK, stack), *((at, struct.pack("<6I", *(o.get(4 * i, 0) for i in range(6)))) for at, o in objects.items())
    )
    monkeypatch.setattr(wait_reader, "memory", memory)
    call = blocked(STACK + 16, WAIT_BITSET | PRIVATE, 0)
    return memory, waits().describe(call, around(0, {}), 71)


@pytest.mark.parametrize(
    ("change", "holder"),
    [
        ({}, "thread:box/7/77"),
        ({0: 0x8000004D}, "thread:box/7/77"),  # others wait
        ({0: 0x4000004D}, "thread:box/7/77"),  # an owner has died
        ({0: 78}, ""),
        ({0: 0, 8: 0}, ""),
        ({12: 0}, ""),
        ({16: 0}, ""),
        ({16: 31}, ""),
        ({16: 33}, "thread:box/7/77"),
        ({16: 1023 & ~128}, "thread:box/7/77"),
        ({16: 1023}, "thread:box/7/77"),
        ({16: 1024 + 32}, ""),
        ({0: 71, 8: 71}, ""),  # its own
        ({0: 99, 8: 99}, ""),  # no thread
        ({0: 90, 8: 90}, ""),
        ({0: 90, 8: 90, 16: 32 + 1}, ""),  # of its own process only
        ({0: 90, 8: 90, 16: 32 + 128}, "thread:box/8/90"),
    ],
)
def test_a_parked_thread_wants_a_pi_mutex_that_another_thread_holds(
    change: dict[int, int], holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, wait = parked([0, 0x6000], {0x6000: PI | change}, monkeypatch)
    assert (wait.waits_in, wait.timed) == (PARKED, False)
    assert [h.entity for waited in wait.waited for h in waited.holders] == ([holder] if holder else [])
    assert len(wait.waited) == bool(holder)
    assert all(waited.inferred and all(h.inferred for h in waited.holders) for waited in wait.waited)


def test_only_words_of_the_stack_that_can_be_addresses_are_followed_and_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [4096, 0x6200, 4104, 0x6000, 0x6004, 0x6000, 0xBAD000, 0x6100]
    objects = {0x6200: PI | {16: 0}, 0x6000: PI | {16: 32 + 1}, 0x6100: PI | {16: 32 + 128}, 4104: PI}
    memory, wait = parked(words, objects, monkeypatch)
    assert memory.asked[1:] == [(STACK, 512), *((at, 24) for at in (0x6200, 4104, 0x6000, 0xBAD000, 0x6100))]
    assert [waited.target for waited in wait.waited] == [
        "mutex:box/7/0x1008",
        "mutex:box/7/0x6000",
        "mutex:box/3/0x6200",
    ]
    first = wait.waited[0]
    assert first.evidence.endswith("; PI mutex 0x1008 on its stack, owner 77")
    assert first.resource is not None and first.resource.attributes == {"kind": "PI"}


def test_a_parked_thread_whose_stack_can_t_be_read_wants_nothing_that_is_known() -> None:
    wait = waits().describe(blocked(STACK + 16, WAIT_BITSET | PRIVATE, 0), around(0, {}), 71)
    assert (wait.waits_in, wait.waited) == (PARKED, ())


def behind(tid: int, kind: str, owner: int) -> Wait:
    """The wait of a thread for a lock of a kind that another thread holds."""
    lock = f"mutex:box/7/{owner:#x}"
    resource = Resource(id=lock, kind="mutex", name="mutex", attributes={"kind": kind})
    return Wait("pthread_mutex_lock", False, (Waited(lock, "", resource, (Holding(f"thread:box/7/{owner}", ""),)),))


@pytest.mark.invariant("wait_reader.P1")
@pytest.mark.parametrize(("kind", "wanted"), [("PI", ["thread:box/7/77"]), ("normal", [])])
def test_only_who_waits_for_a_pi_mutex_waits_behind_a_parked_thread(
    kind: str, wanted: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, wait = parked([], {}, monkeypatch)
    found = {71: wait, 77: behind(77, kind, 71)}
    resolve_parked("box", PID, found)
    assert [waited.target for waited in found[71].waited] == wanted


LIBC_CODE = maps.Mapping(0x1000, 0x2000, "r-xp", 0, "fe:00", 1, "/lib/libc.so.6", False)
USERS_CODE = maps.Mapping(0x9000, 0xA000, "r-xp", 0, "fe:00", 2, "/app/engine", False)


@pytest.mark.parametrize(
    ("word", "static", "waits_in"),
    [
        (0x1234, False, PARKED),
        (0x9234, False, "futex wait"),  # the object is in a frame of the engine, which called the library
        (0xB234, False, PARKED),
        (0x1234, True, "futex wait"),
    ],
)
def test_an_object_in_a_frame_of_the_users_code_is_no_parked_thread(
    word: int, static: bool, waits_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = USERS_CODE._replace(start=0xB000, end=0xC000, permissions="rw-p")
    monkeypatch.setattr(wait_reader, "memory", Memory((STACK, struct.pack("<64Q", 0, word, *[0] * 62))))
    view = ProcessView(Shared("box"), PID, ABI, Libc("glibc", (2, 36), static=static), Numbers(), [])
    monkeypatch.setattr(ProcessView, "mappings_with", lambda *_: [LIBC_CODE, USERS_CODE, data])
    wait = LockWaits(view).describe(blocked(STACK + 16, WAIT_BITSET | PRIVATE, 0), around(0, {}), 71)
    assert wait.waits_in == waits_in
    assert all(waited.wakers == Wakers(frozenset({PID})) for waited in wait.waited)


STREAM = {0: 2, 4: 1}
"""No mutex: it would have an owner's number behind the two words; a stream's lock has an address there."""


def stream(
    tid: int = 77,
    *,
    value: int = 2,
    libc: Libc = GLIBC,
    offset: int | None = 0x2D0,
    owner: int = 0x7FFF_F000_1000,
    at: int = 0,
    operation: int = WAIT | PRIVATE,
    monkeypatch: pytest.MonkeyPatch,
) -> Wait:
    """A wait for the lock of a stream, whose owner's thread descriptor says that it is thread `tid`."""
    words = STREAM | {0: value, 8: owner & 0xFFFFFFFF, 12: owner >> 32}
    descriptor = ((at or owner) + 0x2D0, struct.pack("<I", tid))
    monkeypatch.setattr(wait_reader, "memory", Memory((0x5008, struct.pack("<Q", owner)), descriptor))
    abi = Abi(ABI.machine, ABI.elf, ABI.syscalls, ABI.futex, offset)
    return waits(libc, abi=abi).describe(blocked(0x5000, operation, value), around(0, words), 71)


@pytest.mark.parametrize("owner", [0x7FFF_F000_1000, 0x7FFF_0000_1000])  # the lower half looks like a thread's number
def test_the_lock_of_a_stream_is_held_by_the_thread_of_a_descriptor(
    owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = stream(owner=owner, monkeypatch=monkeypatch)
    [waited] = wait.waited
    assert wait.waits_in == "lock of a stdio stream"
    assert [holding.entity for holding in waited.holders] == ["thread:box/7/77"]
    assert waited.inferred
    assert waited.resource is not None
    assert (waited.target, waited.resource.attributes) == ("mutex:box/7/0x5000", {"kind": "stdio stream"})
    assert waited.evidence == f"stream lock 0x5000 owner = thread descriptor {owner:#x}, tid 77"


def test_what_may_be_no_lock_of_a_stream_is_held_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for wait in (
        stream(99, monkeypatch=monkeypatch),  # no thread
        stream(90, operation=WAIT, monkeypatch=monkeypatch),  # of another process: a descriptor has an address here
        stream(value=1, monkeypatch=monkeypatch),
        stream(value=3, monkeypatch=monkeypatch),
        stream(libc=MUSL, monkeypatch=monkeypatch),
        stream(offset=None, monkeypatch=monkeypatch),
        stream(at=0x7FFF_F000_2000, monkeypatch=monkeypatch),  # can't be read
    ):
        assert wait.waits_in != "lock of a stdio stream"
        assert [waited.holders for waited in wait.waited] == [()]


def test_an_owner_beyond_all_addresses_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> bytes:
        raise OverflowError

    memory = Memory()
    monkeypatch.setattr(memory, "read", overflow)
    monkeypatch.setattr(wait_reader, "memory", memory)
    wait = waits().describe(blocked(0x5000, WAIT | PRIVATE, 2), around(0, STREAM | {8: 1, 12: 0x7FFF}), 71)
    assert [waited.holders for waited in wait.waited] == [()]
