"""The Python adapter on real processes of every interpreter that is here: who waits for what, who holds it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.python import PythonAdapter
from livedbg.adapters.python.processes import PythonProcess
from livedbg.adapters.python.watch import Watch
from livedbg.cpython.interpreter import find_interpreter
from livedbg.linux.procfs import Running, SyscallSeen
from livedbg.model import Edge, EdgeKind
from livedbg.model.entities import FORKED_LIKELY, FORKED_OWNER
from livedbg.model.facts import LockFacts, facts_of
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Request, TargetProcess
from livedbg.session.live import LiveView
from tests.conftest import TARGETS, Target, seen_when, settled
from tests.cpython.interpreters import interpreters, label

PROGRAM = TARGETS / "py_waits.py"
KNOWN = interpreters("3.12", "3.13", "3.14")
known = pytest.mark.parametrize("python", KNOWN, ids=label)


class Facts:
    """What a target said of itself, and how its entities are spelt."""

    def __init__(self, target: Target) -> None:
        self.said: dict[str, Any] = json.loads(target.ready.partition("READY ")[2])
        self.pid: int = self.said["pid"]

    def thread(self, name: str) -> str:
        return f"thread:box/{self.pid}/{self.said['t'][name]}"

    def object(self, kind: str, name: str) -> str:
        return f"{kind}:box/{self.pid}/{self.said['a'][name]}"


@contextmanager
def watching(pid: int, *more: Adapter, **settings: Any) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(pid),), interval_s=0.1, **settings)
    view = LiveView(request, adapters=[PythonAdapter(), *more])
    view.start()
    try:
        yield view
    finally:
        view.stop()


def until(view: LiveView, true: Callable[[Snapshot], object]) -> Snapshot:
    """The first snapshot of which something is true."""

    def told() -> str:
        shot = view.latest().snapshot
        edges = "\n".join(f"{e.kind} {e.source} {e.target} {e.evidence}" for e in shot.edges.values())
        return f"edges:\n{edges}\n{list(shot.statuses.values())}"

    return seen_when(true, lambda: view.latest().snapshot, told)


def edge(snapshot: Snapshot, kind: EdgeKind, source: str, target: str) -> Edge | None:
    return next((e for key, e in snapshot.edges.items() if key == (kind, source, target)), None)


def has(snapshot: Snapshot, *wanted: tuple[EdgeKind, str, str]) -> bool:
    return all(edge(snapshot, *key) is not None for key in wanted)


WAITS, HOLDS = EdgeKind.WAITS_FOR, EdgeKind.HOLDS


@known
@pytest.mark.parametrize("mode", ["lock-cycle", "rlock-cycle"])
def test_lock_cycle(python: str, mode: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, mode]))
    left, right = facts.thread("left"), facts.thread("right")
    first, second = facts.object("pylock", "first"), facts.object("pylock", "second")
    with watching(facts.pid) as view:
        snapshot = until(
            view,
            lambda s: has(
                s, (HOLDS, left, first), (WAITS, left, second), (HOLDS, right, second), (WAITS, right, first)
            ),
        )
    holds = edge(snapshot, HOLDS, left, first)
    assert holds is not None
    assert holds.inferred is (mode == "lock-cycle")
    assert "left() py_waits.py:" in holds.evidence
    assert snapshot.resources[first].attributes["type"] == ("threading.Lock" if holds.inferred else "threading.RLock")
    pair = [e for e in snapshot.edges.values() if e.target in (first, second) and e.kind in (WAITS, HOLDS)]
    assert len(pair) == 4


@known
def test_a_lock_taken_without_with_has_no_known_owner(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "acquired"]))
    lock = facts.object("pylock", "lock")
    with watching(facts.pid) as view:
        snapshot = until(view, lambda s: has(s, (WAITS, facts.thread("waiter"), lock)))
    assert not [e for e in snapshot.edges.values() if e.kind is HOLDS and e.target == lock]
    state = snapshot.resources[lock].state
    assert state is not None and "no owner" in state


@known
def test_condition_has_waiters_and_its_lock_an_owner(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "condition"]))
    lock = facts.object("pylock", "lock")
    with watching(facts.pid) as view:
        snapshot = until(
            view,
            lambda s: has(
                s,
                (WAITS, facts.thread("waiter"), facts.object("cond", "condition")),
                (WAITS, facts.thread("outsider"), lock),
                (HOLDS, facts.thread("holder"), lock),
            ),
        )
    assert edge(snapshot, HOLDS, facts.thread("waiter"), lock) is None


@known
def test_join(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "join"]))
    with watching(facts.pid) as view:
        until(view, lambda s: has(s, (WAITS, facts.thread("main"), facts.thread("worker"))))


@known
def test_idle_workers_wait_to_be_notified(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "idle"]))
    settled(facts.pid)
    queue = facts.object("cond", "condition")
    with watching(facts.pid) as view:
        snapshot = until(
            view,
            lambda s: (
                has(s, (WAITS, facts.thread("consumer"), queue))
                and [e for e in s.edges.values() if e.source == facts.thread("patient") and e.kind is WAITS]
            ),
        )
    assert snapshot.resources[queue].name == "Queue.get"
    (patient,) = (e for e in snapshot.edges.values() if e.source == facts.thread("patient") and e.kind is WAITS)
    assert patient.timed
    assert snapshot.resources[patient.target].name == "Event.wait"
    assert not [e for e in snapshot.edges.values() if e.target.startswith("pylock:")]


@known
def test_gil_held_by_c_code(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "gil"]))
    with watching(facts.pid) as view:

        def stuck(snapshot: Snapshot) -> bool:
            gils = [r.id for r in snapshot.resources.values() if r.kind == "gil"]
            return any(
                has(snapshot, (HOLDS, facts.thread("hog"), gil), (WAITS, facts.thread("main"), gil)) for gil in gils
            )

        snapshot = until(view, stuck)
    (gil,) = (r for r in snapshot.resources.values() if r.kind == "gil")
    assert gil.state == "held, 1 thread waits"


@known
def test_gil_and_mutex_close_a_cycle(
    python: str, spawn: Callable[..., Target], build_target: Callable[..., Path]
) -> None:
    library = build_target("py_gil_mutex", "-shared", "-fPIC", output="py_gil_mutex.so")
    facts = Facts(spawn([python, PROGRAM, "gil-mutex", library]))
    main, worker, mutex = facts.thread("main"), facts.thread("worker"), facts.object("mutex", "mutex")
    with watching(facts.pid, ProcAdapter()) as view:

        def closed(snapshot: Snapshot) -> bool:
            gils = [r.id for r in snapshot.resources.values() if r.kind == "gil"]
            return any(
                has(snapshot, (HOLDS, main, gil), (WAITS, worker, gil), (WAITS, main, mutex), (HOLDS, worker, mutex))
                for gil in gils
            )

        until(view, closed)


@known
@pytest.mark.parametrize("kind", ["lock", "rlock"])
def test_lock_held_when_forked(python: str, kind: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "fork", kind]))
    child = facts.said["child"]
    lock = f"pylock:box/{child}/{facts.said['a']['lock']}"
    waiter = f"thread:box/{child}/{child}"
    with watching(facts.pid, ProcAdapter()) as view:
        snapshot = until(view, lambda s: has(s, (WAITS, waiter, lock)))
    sure = kind == "rlock"  # its owner word says so; of a plain lock the parent's `with` block makes it likely
    assert facts_of(snapshot.resources[lock].facts, LockFacts).forked == (FORKED_OWNER if sure else FORKED_LIKELY)
    waits = edge(snapshot, WAITS, waiter, lock)
    assert waits is not None and str(facts.said["t"]["holder"]) in waits.evidence
    assert not [e for e in snapshot.edges.values() if e.kind is HOLDS and e.target == lock]


@known
@pytest.mark.invariant("processes.W1")
def test_W1_a_thread_that_left_its_call_meanwhile_has_no_wait(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "lock-cycle"]))
    settled(facts.pid)
    left, right = (facts.said["t"][name] for name in ("left", "right"))
    process, read = python_process(facts.pid), 0
    calls = process.calls

    def moved() -> dict[int, SyscallSeen]:
        nonlocal read
        read += 1
        return {**calls(), **({right: Running()} if read % 2 == 0 else {})}

    assert {wait.tid for wait in process.sample().lock_waits} == {left, right}
    process.calls = moved  # type: ignore[method-assign]
    assert {wait.tid for wait in process.sample().lock_waits} == {left}


@known
@pytest.mark.invariant("processes.W1")
def test_W1_a_thread_that_ran_and_waits_in_the_same_call_again_has_no_wait(
    python: str, spawn: Callable[..., Target]
) -> None:
    """It may have held its lock meanwhile, and given it back."""
    facts = Facts(spawn([python, PROGRAM, "lock-cycle"]))
    settled(facts.pid)
    left, right = (facts.said["t"][name] for name in ("left", "right"))
    process, ran = python_process(facts.pid), itertools.count()
    runs = process._runs

    def ran_meanwhile(tids: Iterable[int]) -> dict[int, bytes]:
        return {**runs(tids), right: b"%d 0 0" % next(ran)}

    assert {wait.tid for wait in process.sample().lock_waits} == {left, right}
    process._runs = ran_meanwhile  # type: ignore[method-assign]
    assert {wait.tid for wait in process.sample().lock_waits} == {left}
    process._runs = lambda tids: {}  # type: ignore[method-assign]  # a kernel that does not count
    assert {wait.tid for wait in process.sample().lock_waits} == {left, right}


@known
@pytest.mark.invariant("processes.W2")
def test_W2_a_gil_that_went_through_other_hands_has_no_known_holder(python: str, spawn: Callable[..., Target]) -> None:
    facts = Facts(spawn([python, PROGRAM, "gil"]))
    process = python_process(facts.pid)
    reader = process.reader
    assert reader is not None
    holders = seen_when(bool, lambda: process.sample().holders)
    assert set(holders.values()) == {facts.said["t"]["hog"]}
    (gil,) = reader.gils()
    for after in (replace(gil, switches=gil.switches + 2), replace(gil, holder=None), replace(gil, holder=1)):
        answers = itertools.cycle([[gil], [after]])
        reader.gils = lambda answers=answers: next(answers)  # type: ignore[method-assign]
        assert process.sample().holders == {}


def python_process(pid: int) -> PythonProcess:
    interpreter = find_interpreter(pid)
    assert interpreter is not None
    return PythonProcess(pid, interpreter)


@known
@pytest.mark.invariant("python_adapter.P2")
def test_P2_a_process_that_does_not_move_is_not_sampled_again_but_on_request(
    python: str, spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[object] = []
    signatures: list[object] = []
    turn, take = Watch.turn, Watch._take_stacks

    async def turned(self: Watch, signature: object) -> None:
        turns.append(signature)
        await turn(self, signature)

    async def taken(self: Watch, signature: object, **how: bool) -> None:
        signatures.append(signature)
        await take(self, signature, **how)

    monkeypatch.setattr(Watch, "turn", turned)
    monkeypatch.setattr(Watch, "_take_stacks", taken)
    facts = Facts(spawn([python, PROGRAM, "lock-cycle"]))
    settled(facts.pid)
    with watching(facts.pid, ProcAdapter()) as view:
        until(view, lambda s: len(s.stacks) >= 3)
        until(view, lambda _: turns[-15:].count(turns[-1]) == 15 and turns[-1] is not None)
        known_ones = [signature for signature in signatures if signature is not None]
        assert len(set(known_ones)) == len(known_ones) <= len(signatures) <= len(known_ones) + 1  # the first has none
        before = len(signatures)
        view.send(WantStacks(process=f"process:box/{facts.pid}"))
        until(view, lambda _: len(signatures) == before + 1)


@known
@pytest.mark.invariant("python_adapter.P1")
def test_target_is_not_touched(python: str, spawn: Callable[..., Target]) -> None:
    """No tracer, no stop, and no context switch of its sleeping threads while it is looked at."""
    facts = Facts(spawn([python, PROGRAM, "lock-cycle"]))
    settled(facts.pid)
    tids = list(facts.said["t"].values())

    def counters() -> list[str]:
        lines = []
        for tid in tids:
            text = Path(f"/proc/{facts.pid}/task/{tid}/status").read_text()
            lines += [ln for ln in text.splitlines() if "ctxt_switches" in ln or ln.startswith(("TracerPid", "State"))]
        return lines

    first, second = facts.object("pylock", "first"), facts.object("pylock", "second")
    with watching(facts.pid) as view:
        until(
            view,
            lambda s: (
                has(s, (WAITS, facts.thread("right"), first), (WAITS, facts.thread("left"), second))
                and len(s.stacks) >= 3
            ),
        )
        before = counters()
        for _ in range(3):
            taken = newest_stack(view.latest().snapshot)
            view.send(WantStacks(process=f"process:box/{facts.pid}", local_variables=True))
            until(view, lambda s, taken=taken: newest_stack(s) > taken)
        assert counters() == before
    assert [line for line in before if line.startswith("TracerPid")] == ["TracerPid:\t0"] * len(tids)


def newest_stack(snapshot: Snapshot) -> int:
    return max((stack.taken_mono_ns for stack in snapshot.stacks.values()), default=0)
