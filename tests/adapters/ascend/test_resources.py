"""What the orchestrator runs out of: each resource with its numbers, its variable, and the scope that fills it.

The lines have the formats of simpler's pto_ring_buffer.h, pto_ring_buffer.cpp and pto_orchestrator.cpp (August 2026).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from livedbg.adapters.ascend.dumps.scope_stats import read_scope_stats
from livedbg.adapters.ascend.trouble import Full
from livedbg.analysis import VerdictState
from livedbg.model import Process
from livedbg.model.events import ProcessExited, ProcessSeen
from livedbg.model.snapshot import Snapshot
from tests.adapters.ascend.replay import BEGIN, NOW, Replay, dispatched, findings, replay_folder, replay_lines

OPEN_SCOPE = (
    "Head task 0 is the oldest task owned by an open scope on this ring ->",
    "no open scope can end while the orchestrator is blocked here.",
    "Provable head-of-line deadlock.",
)
POOL = (
    "  - Pool used:     1024 / 1024 (100.0%)",
    "  - Pool top:      1024 (linear)",
    "  - Pool tail:     0 (linear)",
    "  - High water:    1024",
    "  - Needed:        17 entries",
    "  - last_task_alive: 0 (stuck here)",
    "  - current_task:    9",
    "  - In-flight tasks: 9",
    "  Head task 0: state=0, consumers=0/8, scope_released=0",
    "Solution:",
    "  Increase dep pool capacity (current: 1024, recommended: 2048)",
    "  Runtime env:  PTO2_RING_DEP_POOL=2048",
)
CODE = (
    "[ERROR] validate_runtime_impl: [runtime_maker.cpp:900] PTO2 runtime failed: orch_error_code={} "
    "sched_error_code=0 runtime_status=-{}"
)


def logged(*lines: str, func: str = "report_deadlock") -> list[str]:
    return [f"[ERROR] {func}: [pto_ring_buffer.cpp:142] {line}" for line in lines]


def pool(*between: str) -> list[str]:
    return [
        BEGIN,
        dispatched(1 << 32, 8),
        *logged("FATAL: Dependency Pool Deadlock Detected!", *between, *POOL),
        CODE.format(4, 4),
    ]


def test_a_dependency_pool_that_an_open_scope_fills_is_a_deadlock() -> None:
    deadlock = findings(replay_lines(pool(*OPEN_SCOPE)))["ascend-scope-deadlock"]
    assert deadlock.state is VerdictState.DEADLOCK
    assert deadlock.sentence == (
        "The orchestrator waits for itself: the dependency pool of ring 1 is full, and only the orchestrator can end "
        "the scope of its oldest task. 1,024 of 1,024 entries used, 17 wanted."
    )
    assert "or raise PTO2_RING_DEP_POOL (now 1,024 entries) to hold the scope's largest live set" in deadlock.next
    assert any("ascend-scope-stats" in step for step in deadlock.next)


def test_a_dependency_pool_behind_a_hung_kernel_is_a_symptom() -> None:
    lines = pool("DepListPool cannot reclaim space after ~500 ms (no progress).")
    stall = findings(replay_lines(lines))["ascend-stall"]
    assert (stall.state, stall.roots) == (VerdictState.STALLED, ("task:ascend/r1t0",))
    assert "entries of the pool are freed only when the oldest task completes" in stall.sentence
    (advice,) = [step for step in stall.next if "PTO2_" in step]
    assert advice.startswith("do not raise PTO2_RING_DEP_POOL (now 1,024 entries) first")


def test_a_task_with_more_producers_than_the_pool_holds_is_no_deadlock() -> None:
    overflow = logged(
        "FATAL: Dependency Pool Overflow!", "DepListPool exhausted: 1024 entries alive (capacity=1024).", func="alloc"
    )
    found = findings(replay_lines([BEGIN, *overflow, CODE.format(4, 4)]))
    assert "ascend-scope-deadlock" not in found
    states = {finding.state for finding in found.values()}
    assert VerdictState.DEADLOCK not in states and VerdictState.CRASHED in states
    assert any("PTO2_RING_DEP_POOL" in step for finding in found.values() for step in finding.next)
    assert any("1,024 of 1,024 entries are used" in finding.sentence for finding in found.values())


def test_a_scope_with_as_many_tasks_as_there_are_slots() -> None:
    lines = logged(
        "FATAL: Scope Deadlock Detected! (ring 1)",
        "Tasks in current scope (15) >= task_window_size (16).",
        "  scope_depth:        2",
        "  ring_id:            1",
        "  scope_task_count:   15",
        "  active_tasks:       15 / 16",
        func="check_scope_can_accept_task",
    )
    deadlock = findings(replay_lines([BEGIN, *lines, CODE.format(1, 1)]))["ascend-scope-deadlock"]
    assert "task ring 1 is full" in deadlock.sentence
    assert "15 of 15 usable slots, 15 by one scope." in deadlock.sentence
    assert any("PTO2_RING_TASK_WINDOW" in step for step in deadlock.next)


def test_the_tensor_map_is_no_ring() -> None:
    lines = logged(
        "FATAL: TensorMap Entry Pool Deadlock Detected!",
        "TensorMap entry pool freed no entries for ~500 ms while a task waits.",
        "  - Pool used:   65536 / 65536",
        "  - Needed:      3 entries",
        func="ensure_entries",
    )
    stall = findings(replay_lines([BEGIN, dispatched(1 << 32, 8), *lines, CODE.format(11, 11)]))
    steps = [step for finding in stall.values() for step in finding.next]
    assert any("PTO2_TENSORMAP_POOL_SIZE" in step for step in steps)
    assert not any("PTO2_RING_TASK_WINDOW" in step for step in steps)


def dispatches(tasks: Sequence[int]) -> list[str]:
    """Each on a core of its own."""
    return [dispatched(task, 8 + at) for at, task in enumerate(tasks)]


SPILL = (
    "FATAL: Fanin Spill Pool Deadlock Detected!",
    "Fanin spill pool cannot reclaim space after ~500 ms (no progress).",
    "  - Pool used:     4 / 4 (100.0%)",
    "  - Needed:        1 entries",
    "  - last_task_alive: 0 (stuck here)",
    "  - current_task:    129",
    "  - In-flight tasks: 129",
    "Solution:",
    "  Runtime env:  PTO2_RING_DEP_POOL=8",
)


def spilled(*tasks: int) -> list[str]:
    return [BEGIN, *dispatches(tasks), *logged(*SPILL, func="ensure_space"), CODE.format(4, 4)]


@pytest.mark.parametrize("in_flight", [(), ((1 << 32) + 7,)])
def test_a_spill_pool_that_nobody_is_seen_to_hold(in_flight: tuple[int, ...]) -> None:
    found = findings(replay_lines(spilled(*in_flight)))
    (failed,) = [one for one in found.values() if one.state is not VerdictState.RUNNING]
    assert (failed.rule, failed.state) == ("ascend-run-failed", VerdictState.CRASHED)
    assert "The dependency pool is full (4 of 4 entries used, 1 wanted). What holds it, the log does not tell" in (
        failed.sentence
    )
    assert failed.next[0].startswith("raise PTO2_RING_DEP_POOL (now 4 entries) once, or ring_dep_pool where")


def test_a_spill_pool_behind_the_oldest_task_of_a_ring() -> None:
    stall = findings(replay_lines(spilled(1 << 32, (1 << 32) + 7)))["ascend-stall"]
    assert (stall.state, stall.roots, stall.inferred) == (VerdictState.STALLED, ("task:ascend/r1t0",), True)


HEAP = (
    "FATAL: Task Allocator Deadlock - Heap Exhausted! ring=1",
    "No reclaim progress for ~500 ms (25000000 cycles wall clock).",
    "  Task ring 1: current={active}, last_alive=0, active={active}/16384 (0.0%)",
    "  Heap ring 1: top=0, tail=0, size=1024, used=0, available=1024",
    "  Requested:  {wanted} bytes",
    "  Head task 0: state=0, consumers=0/0, scope_released=0",
)


def heap(active: int, wanted: int, *between: str) -> list[str]:
    head, *rest = (line.format(active=active, wanted=wanted) for line in HEAP)
    tasks = dispatches(range(1 << 32, (1 << 32) + active))
    return [BEGIN, *tasks, *logged(head, *between, *rest), CODE.format(2, 2)]


@pytest.mark.parametrize("between", [(), OPEN_SCOPE])
@pytest.mark.parametrize("active", [0, 3])
def test_more_than_the_whole_heap_never_fits(active: int, between: tuple[str, ...]) -> None:
    snapshot = replay_lines(heap(active, 32768, *between))
    (failed,) = [one for one in findings(snapshot).values() if one.state is not VerdictState.RUNNING]
    assert (failed.rule, failed.state) == ("ascend-run-failed", VerdictState.CRASHED)
    assert "One task wants 32,768 bytes of the heap of ring 1, which has 1,024 in all: that never fits" in (
        failed.sentence
    )
    assert failed.next[0].startswith("raise PTO2_RING_HEAP (now 1,024 bytes) to more than 32,768, or ring_heap where")
    assert snapshot.resources["ring:ascend/1"].state.startswith("too small, ")


def test_a_heap_that_is_full_while_its_ring_has_no_task_names_none() -> None:
    (failed,) = [one for one in findings(replay_lines(heap(0, 1024))).values() if one.state is not VerdictState.RUNNING]
    assert (failed.rule, failed.roots) == ("ascend-run-failed", ())
    assert "What holds it, the log does not tell" in failed.sentence


@pytest.mark.parametrize(
    ("active", "available", "says"),
    [
        (0, 1024, "One task wants more of the heap than its 1,024 bytes, all of which are free: that never fits"),
        (3, 0, "The heap is full (1,024 of 1,024 bytes used). What holds it, the log does not tell"),
        (3, 1024, "What holds it, the log does not tell"),  # it was drained since
    ],
)
@pytest.mark.parametrize("head", ["[ERROR] report_deadlock: [r.h:3] ", ""])
def test_of_a_heap_in_which_nothing_is_one_task_wants_too_much(
    active: int, available: int, says: str, head: str
) -> None:
    lines = (
        "FATAL: Task Allocator Deadlock - Heap Exhausted!",
        f"  Task ring:  current={active}, last_alive=0, active={active}/16384 (0.0%)",
        f"  Heap ring:  top=0, tail=0, size=1024, available={available}",
    )
    failed = findings(replay_lines([f"{head}{line}" for line in lines]))["ascend-run-failed"]
    assert failed.state is VerdictState.CRASHED and says in failed.sentence


def test_a_request_that_the_heap_could_hold_is_a_symptom() -> None:
    assert findings(replay_lines(heap(3, 1024)))["ascend-stall"].roots == ("task:ascend/r1t0",)


META = {
    "version": 6,
    "fatal": True,
    "dropped": 0,
    "total": 3,
    "task_window_max": [16, 16],
    "heap_max": [4096, 262144],
    "dep_pool_max": [1024, 1024],
    "tensormap_max": 65536,
}


def sample(
    phase: str, depth: int, line: int, heap: tuple[int, int], slots: tuple[int, int] = (0, 0)
) -> dict[str, object]:
    return {
        "site": f"attention.cpp:{line}",
        "phase": phase,
        "depth": depth,
        "ring": depth,
        "task_window_start": slots[0],
        "task_window_end": slots[1],
        "heap_start": heap[0],
        "heap_end": heap[1],
        "dep_pool_start": 1,
        "dep_pool_end": 1,
        "tensormap": 5,
    }


def scope_stats(*records: dict[str, object], meta: dict[str, object] = META) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in (meta, *records)) + b"\n"


RECORDS = (
    sample("begin", 0, 10, (0, 0)),
    sample("begin", 1, 30, (0, 0)),
    sample("end", 1, 30, (0, 131072), (0, 9)),
    sample("begin", 1, 77, (131072, 131072)),
)


def test_scope_stats_name_the_scope_that_is_open_and_the_fullest(tmp_path: Path, recorded: Path) -> None:
    (tmp_path / "err.txt").write_bytes((recorded / "30_heap_scope" / "err.txt").read_bytes())
    (tmp_path / "scope_stats.jsonl").write_bytes(scope_stats(*RECORDS))
    replay = Replay()
    replay.read(tmp_path / "err.txt")
    replay.files(tmp_path)
    deadlock = findings(replay.flush())["ascend-scope-deadlock"]
    assert deadlock.sentence.endswith(
        "The scope at attention.cpp:77 (depth 1) has begun and not ended. Of the scopes that ended, the one at "
        "attention.cpp:30 held the most: 131,072 of 262,144."
    )
    assert not any("ascend-scope-stats" in step for step in deadlock.next)


def test_scope_stats_of_before_do_not_tell_the_heap_s_peak() -> None:
    old = read_scope_stats(scope_stats(*RECORDS, meta={**META, "version": 5}))
    assert old.peak(Full.HEAP, 1) is None
    slots = old.peak(Full.SLOTS, 1)
    assert slots is not None and (slots.used, slots.size) == (9, 16)


def test_scope_stats_that_are_being_written() -> None:
    cut = scope_stats(*RECORDS)[:-30]
    assert [one.site for one in read_scope_stats(cut).open] == ["attention.cpp:10"]
    with pytest.raises(msgspec.DecodeError):
        read_scope_stats(b'{"version": 6}\nnot json\n' + scope_stats(*RECORDS))
    with pytest.raises(msgspec.DecodeError):
        read_scope_stats(b"[1, 2]\n")


T = "task:ascend/"


def test_a_heap_that_an_open_scope_fills(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "30_heap_scope")
    found = findings(snapshot)
    deadlock = found["ascend-scope-deadlock"]
    assert (deadlock.state, deadlock.roots) == (VerdictState.DEADLOCK, (f"{T}orchestrator", "ring:ascend/1"))
    assert deadlock.sentence == (
        "The orchestrator waits for itself: the heap of ring 1 is full, and only the orchestrator can end the scope of "
        "its oldest task. 262,144 of 262,144 bytes used, 65,536 wanted."
    )
    assert deadlock.next[1] == "or raise PTO2_RING_HEAP (now 262,144 bytes) to hold the scope's largest live set"
    full = snapshot.resources["ring:ascend/1"]
    assert (full.name, full.state) == ("heap of ring 1", "full, 262,144 of 262,144 bytes used, 65,536 wanted")
    assert not any("PTO2_RING_TASK_WINDOW" in step or "slot" in step for step in deadlock.next)


def test_a_heap_that_fills_behind_a_hung_kernel(recorded: Path) -> None:
    stall = findings(replay_folder(recorded / "31_heap_hang"))["ascend-stall"]
    assert (stall.state, stall.roots) == (VerdictState.STALLED, (f"{T}r1t0",))
    assert "(code 2, HEAP_RING_DEADLOCK). That is a symptom: memory of the heap is freed only when" in stall.sentence
    (advice,) = [step for step in stall.next if "PTO2_" in step]
    assert advice.startswith("do not raise PTO2_RING_HEAP (now 262,144 bytes) first")


def test_a_full_ring_has_one_slot_less_than_its_window(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "05_hang_ring_full")
    ring = snapshot.resources["ring:ascend/1"]
    assert (ring.name, ring.state) == ("task ring 1", "full, 15 of 15 usable slots")
    assert any("PTO2_RING_TASK_WINDOW" in step for step in findings(snapshot)["ascend-stall"].next)


def _end(recorded: Path, status: int | None) -> Snapshot:
    """The recorded crash, and how its process ended by its wait status."""
    replay = Replay()
    source = replay.read(recorded / "32_crash" / "err.txt")
    replay.flush()
    process = Process(id="process:box/7", host="box", pid=7)
    replay.store.apply_all([ProcessSeen(process=process, **NOW), ProcessExited(id=process.id, status=status, **NOW)])
    replay.model.job(source).process = process.id
    replay.model.processes_seen(replay.store.snapshot().processes)
    replay.store.apply_all(replay.model.collect(NOW, whole=True))
    return replay.store.snapshot()


def test_the_kernel_that_ran_when_the_process_died_is_named(recorded: Path) -> None:
    crash = findings(_end(recorded, -11))["ascend-crash"]
    assert (crash.state, crash.entities) == (VerdictState.CRASHED, (f"{T}r1t2",))
    assert crash.sentence == (
        "The process ended with SIGSEGV. Task r1t2 (MUL, func 2, id 4294967298) was running on core 8 (AIV0) at that "
        "time."
    )
    assert ("wait status of process 7", "ended by signal 11") in {(e.source, e.text) for e in crash.evidence}
    assert "ascend-crash" not in findings(_end(recorded, None))  # how it ended is not known
    assert "ascend-crash" not in findings(_end(recorded, -15))  # somebody ended it
