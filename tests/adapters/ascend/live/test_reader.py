"""The scheduler's state is read out of a running process's memory: real process, real debug information."""

from __future__ import annotations

import ctypes
import os
import random
import struct
import time
from collections.abc import Callable, Sequence

import pytest

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.layout import Layout, Place
from livedbg.adapters.ascend.live.scene import Unreturned, func_at, read_unreturned
from livedbg.adapters.ascend.live.slots import Image, Slot, SlotReader
from livedbg.adapters.ascend.names import raw_id
from livedbg.linux import memory
from livedbg.linux.maps import Mapping
from livedbg.model import TaskState
from tests.adapters.ascend.live.conftest import Simulator
from tests.waiting import Bound

_LOOKS = 300

Start = Callable[..., Simulator]
KINDS = pytest.mark.parametrize("kind", ["ringbuffer", "polling"])


@KINDS
def test_tasks_go_through_their_states(simulator: Start, kind: str) -> None:
    target = simulator(kind)
    target.tell("submit 0 3", "submit 0 4 0.0", "submit 0 5 0.0 0.1")
    sample = target.sample()
    assert {raw: task.state for raw, task in sample.tasks.items()} == {
        0: TaskState.READY,
        1: TaskState.SUBMITTED,
        2: TaskState.SUBMITTED,
    }
    assert sample.fresh and sample.changed == {0, 1, 2}
    assert (sample.tasks[2].missing, sample.tasks[2].fanin, sample.tasks[2].kernels) == (2, 2, (-1, 5, -1))
    assert {raw: set(behind) for raw, behind in sample.waiters.items()} == {0: {1, 2}, 1: {2}}
    assert (sample.completed, sample.total, sample.submitted) == (0, None, False)

    target.tell("run 8 0.0", "submitted")
    sample = target.sample()
    assert sample.changed == {0} and not sample.fresh and not sample.waiters
    assert sample.tasks[0].state is TaskState.RUNNING
    assert sample.tasks[0].cores == ((8, "aiv0"),) and sample.tasks[0].owner == 0
    assert (sample.cores[8].running, sample.cores[9].running, sample.total, sample.submitted) == (0, None, 3, True)

    target.tell("done 0.0", "run 10 0.1")
    sample = target.sample()
    assert sample.changed == {0, 1, 2}
    assert sample.tasks[0].state is TaskState.COMPLETED and not sample.tasks[0].cores
    assert sample.tasks[1].cores == ((10, "aiv0"),) and sample.tasks[1].owner == 1
    assert (sample.tasks[2].missing, sample.completed) == (1, 1)
    assert sample.cores[8].running is None


@KINDS
def test_a_deferred_task_is_told_from_a_ready_one(simulator: Start, kind: str) -> None:
    target = simulator(kind)
    target.tell("submit 0 1", "submit 0 2", "run 8 0.0", "defer 0.0")
    tasks = target.sample().tasks
    assert (tasks[0].state, tasks[0].deferred) == (TaskState.READY, True)
    assert (tasks[1].state, tasks[1].deferred) == (TaskState.READY, False)
    (condition,) = tasks[0].conditions
    assert (condition.engine, condition.expected, condition.value) == ("ROCE", 1, 0)
    assert condition.text.endswith("is 0, waits for 1 (ROCE)")


def test_a_queued_task_is_not_running(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 1", "submit 0 2", "run 8 0.0", "queue 8 0.1")
    task = target.sample().tasks[1]
    assert (task.state, task.queued, task.cores) == (TaskState.READY, 8, ())


def test_a_task_that_is_placed_early_waits_on_its_core(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 1", "submit 0 2 0.0", "run 8 0.0", "run 9 0.1")
    task = target.sample().tasks[1]
    assert (task.state, task.staged, task.cores) == (TaskState.SUBMITTED, True, ((9, "aiv1"),))


def test_rings_turn_and_slots_are_given_back(simulator: Start) -> None:
    target = simulator()
    seen: set[int] = set()
    for number in range(30):  # ring 1 has 8 slots
        target.tell(f"submit 1 {number % 7}" + (f" 1.{number - 1}" if number else ""))
        sample = target.sample()
        raw = raw_id(1, number)
        assert sample.tasks[raw].kernels == (-1, number % 7, -1)
        assert sample.tasks[raw].state is (TaskState.READY if number == 0 else TaskState.SUBMITTED)
        seen |= sample.changed
        if number:
            assert sample.waiters == {raw_id(1, number - 1): (raw,)}
            target.tell(f"done 1.{number - 1}", "consume 1")
            assert target.sample().gone == {raw_id(1, number - 1)}
            assert target.sample().tasks[raw].state is TaskState.READY
    assert seen == {raw_id(1, number) for number in range(30)}


@pytest.mark.invariant("reader.N3")
def test_a_slot_that_is_being_filled_is_left_alone(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 1 1", "half 1")
    assert set(target.sample().tasks) == {raw_id(1, 0)}


def test_a_new_run_starts_from_nothing(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 1", "submit 0 2 0.0", "run 8 0.0", "done 0.0")
    assert target.sample().completed == 1
    target.tell("reset", "submit 0 6")
    sample = target.sample()
    assert sample.fresh and set(sample.tasks) == {0}
    assert sample.tasks[0].kernels == (-1, 6, -1)
    target.tell("idle")
    assert target.reader().sample() is None


@pytest.mark.invariant("reader.N4")
@pytest.mark.parametrize("how", ["again", "later"])
def test_N4_the_same_graph_run_again_is_another_run(simulator: Start, how: str) -> None:
    """Its rings, its tasks and the number of those that have completed are as in the run before."""
    target = simulator()
    target.tell("submit 0 1", "submit 0 2 0.0", "run 8 0.0", "turn", "later")
    first = target.sample()
    assert not target.sample().fresh
    target.tell("turn")
    assert not target.sample().fresh  # it goes on
    target.tell(how)
    second = target.sample()
    assert second.fresh and second.tasks == first.tasks
    assert not target.sample().fresh


def test_errors_and_turns_are_seen(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 1")
    before = target.sample()
    assert not before.over and before.errors.scheduler == 0
    target.tell("turn", "error 100")
    sample = target.sample()
    assert sample.over and sample.errors.scheduler == 100
    assert sample.turns[0] == before.turns[0] + 1000


@pytest.mark.invariant("reader.N1")
def test_what_is_emitted_under_a_fast_writer_was_so(simulator: Start) -> None:
    """The writer's tasks can be told by their numbers, and only one of them runs at any time."""
    target = simulator()
    reader = target.reader()
    target.begin("fast")
    bound, looks = Bound(), 0
    states: dict[int, TaskState] = {}
    order = [TaskState.SUBMITTED, TaskState.READY, TaskState.RUNNING, TaskState.COMPLETED]
    while looks < _LOOKS or TaskState.COMPLETED not in states.values() or len(states) <= 20:
        looks += 1
        problem = bound.problem()
        assert not problem, (problem, states)
        time.sleep(0.001)  # where the two share a processor, the writer goes on meanwhile
        sample = reader.sample()
        if sample is None:
            continue
        running = 0
        for raw in sample.changed:
            task = sample.tasks[raw]
            assert task.kernels == (-1, raw % 7, -1)
            assert task.blocks == raw % 3 + 1
            assert task.fanin == (1 if raw else 0)
            assert all(core == raw % 24 for core, _ in task.cores)
            assert order.index(task.state) >= order.index(states.get(raw, TaskState.SUBMITTED))
            states[raw] = task.state
            running += bool(task.cores)
        assert running <= 1
        for raw, behind in sample.waiters.items():
            assert behind in ((), (raw + 1,))
    target.begin("stop")
    assert target.target.line() == target.target.line() == "OK"  # of both


@pytest.mark.invariant("live_layout.L1")
def test_missing_fields_are_named_and_the_rest_is_read(simulator: Start) -> None:
    target = simulator("lacks")
    assert set(target.layout().missing) == {"sched_ctx_.core_exec_states_", "kernel_id"}
    assert not target.layout().needed
    target.tell("submit 0 3", "submit 0 4 0.0", "done 0.0")
    sample = target.sample()
    assert [sample.tasks[raw].state for raw in (0, 1)] == [TaskState.COMPLETED, TaskState.READY]
    assert not sample.cores and sample.tasks[1].kernels == ()


def test_a_process_that_ends_is_no_accident(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 3")
    target.sample()
    target.target.kill()
    with pytest.raises(ProcessLookupError):
        target.sample()


@pytest.mark.invariant("reader.N2")
def test_N2_slots_that_did_not_change_are_not_taken_apart_again(
    simulator: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    whole = SlotReader.of

    def counted(self: SlotReader, data: bytes, start: int, address: int) -> Slot:
        taken.append(address)
        return whole(self, data, start, address)

    monkeypatch.setattr(SlotReader, "of", counted)
    target = simulator()
    target.tell(*(f"submit 0 {number % 7}" for number in range(200)))
    target.sample()
    assert len(set(taken)) == 200
    taken.clear()
    assert not target.sample().changed and taken == []
    target.tell("run 8 0.100")
    assert target.sample().changed == {100} and 0 < len(set(taken)) <= 64


@pytest.mark.invariant("image.I1")
def test_I1_only_what_was_the_same_twice_is_steady() -> None:
    still, moving = ctypes.create_string_buffer(b"a" * 64), ctypes.create_string_buffer(b"b" * 64)
    image = Image(os.getpid())
    one, other, gone = image.take([(ctypes.addressof(still), 64), (ctypes.addressof(moving), 64), (8, 64)])
    assert one is not None and other is not None and gone is None
    assert not one.steady() and not other.steady()  # read once
    moving[40] = b"c"
    image.confirm()
    assert one.steady() and one.steady(40, 1)
    assert not other.steady() and not other.steady(40, 1) and not other.steady(32, 16)
    assert other.steady(0, 40) and other.steady(41, 23)
    assert other.data == b"b" * 64


_MOST = 256 << 20
_read_many = memory.read_many


@pytest.mark.parametrize("kind", ["ringbuffer", "polling"])
@pytest.mark.parametrize("share", [0.0001, 0.01, 0.5])
def test_damaged_memory(
    simulator: Callable[..., Simulator], kind: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = simulator(kind)
    target.tell("many 40", "run 8 0.0", "run 9 0.1", "defer 0.1", "submit 1 2 0.3" if kind == "ringbuffer" else "turn")
    reader = target.reader()
    whole = reader.sample()
    assert whole is not None and len(whole.tasks) > 39
    dice = random.Random(f"{kind} {share}")
    total = 0

    def damaged(pid: int, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        nonlocal total
        total += sum(size for _, size in ranges)
        assert total < _MOST
        found: list[bytes | None] = []
        for data in _read_many(pid, ranges):
            bad = bytearray(data or b"")
            for _ in range(int(len(bad) * share + dice.random())):
                bad[dice.randrange(len(bad))] = dice.randrange(256)
            found.append(bytes(bad) if data is not None and dice.random() > 0.01 else None)
        return found

    monkeypatch.setattr(memory, "read_many", damaged)
    samples = 0
    for _ in range(20):
        total = 0
        samples += reader.sample() is not None
    monkeypatch.undo()
    target.tell("reset", "submit 0 3")
    fresh = target.reader().sample()
    assert fresh is not None and fresh.tasks[0].kernels == (-1, 3, -1)
    assert samples or share > 0.001


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
