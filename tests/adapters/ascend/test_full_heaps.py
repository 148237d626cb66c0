"""Rings and heaps that are full, and a process that died by a signal, as the real simulator's logs tell of them."""

from __future__ import annotations

from pathlib import Path

from livedbg.analysis import VerdictState
from livedbg.model import Process
from livedbg.model.events import ProcessExited, ProcessSeen
from livedbg.model.snapshot import Snapshot
from tests.adapters.ascend.replay import NOW, Replay, findings, replay_folder

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
