"""States of threads: a deadlock of two locks, a GIL that is kept, a server that waits for work."""

from __future__ import annotations

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.model import (
    Edge,
    EdgeKind,
    Evidence,
    Intrusion,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    ThreadState,
)
from livedbg.model import events as ev
from tests.app.fakes import T0_WALL, FakeView, S, stamp
from tests.app.scenes.parts import PID, PROCESS, healthy, judge, process, stack, thread, tid, twice


def deadlock() -> FakeView:
    a, b = f"mutex:box/{PID}/0x7f12a0c0", f"mutex:box/{PID}/0x7f12a0e8"
    names = ["bank", "transfer-a", "transfer-b", *(f"teller-{n}" for n in range(1, 10)), "metrics"]
    waits = ["pthread_join", *["pthread_mutex_lock"] * 11, "sleep 1 s"]
    threads = [
        thread(PID + n, name, ThreadState.WAITING, w) for n, (name, w) in enumerate(zip(names, waits, strict=True))
    ]
    edges = [
        Edge(kind=EdgeKind.WAITS_FOR, source=tid(4711), target=tid(4712), evidence="pthread_join(4712)"),
        Edge(kind=EdgeKind.WAITS_FOR, source=tid(4712), target=b, evidence="futex 0x7f12a0e8, FUTEX_WAIT"),
        Edge(kind=EdgeKind.HOLDS, source=tid(4713), target=b, evidence="owner word = 4713"),
        Edge(kind=EdgeKind.WAITS_FOR, source=tid(4713), target=a, evidence="futex 0x7f12a0c0, FUTEX_WAIT"),
        Edge(kind=EdgeKind.HOLDS, source=tid(4712), target=a, evidence="owner word = 4712"),
        *(
            Edge(kind=EdgeKind.WAITS_FOR, source=tid(4711 + n), target=a, evidence="futex 0x7f12a0c0, FUTEX_WAIT")
            for n in range(3, 12)
        ),
    ]
    lock = (("__lll_lock_wait", "lowlevellock.c", 49), ("pthread_mutex_lock", "pthread_mutex_lock.c", 93))
    stacks = [
        stack(
            4712,
            *lock,
            ("Account::credit(long)", "bank.cpp", 31),
            ("transfer(Account&, Account&, long)", "bank.cpp", 48),
            source=(
                2,
                28,
                (
                    "",
                    "void Account::credit(long cents) {",
                    "    ++calls_;",
                    "    std::lock_guard held(mutex_);",
                    "    balance_ += cents;",
                    "}",
                    "",
                ),
            ),
        ),
        stack(
            4713,
            *lock,
            ("Account::credit(long)", "bank.cpp", 31),
            ("transfer(Account&, Account&, long)", "bank.cpp", 48),
        ),
        *(
            stack(4711 + n, *lock, ("Account::balance() const", "bank.cpp", 22), ("teller(int)", "bank.cpp", 60))
            for n in range(3, 12)
        ),
    ]
    sentence = (
        "Deadlock: thread 4712 transfer-a waits for mutex 0x7f12a0e8, which thread 4713 transfer-b holds, "
        "and that waits for mutex 0x7f12a0c0, which 4712 holds."
    )
    finding = Finding(
        rule="lock-cycle",
        severity=Severity.CRITICAL,
        sentence=sentence,
        entities=(tid(4712), b, tid(4713), a),
        evidence=(
            Evidence(kind="memory", source="futex 0x7f12a0e8", text="owner word = 4713", at_wall_ns=T0_WALL + 41 * S),
            Evidence(kind="memory", source="futex 0x7f12a0c0", text="owner word = 4712", at_wall_ns=T0_WALL + 41 * S),
            Evidence(kind="proc", source="/proc/4711/task/4712/syscall", text="futex(0x7f12a0e8, FUTEX_WAIT_PRIVATE)"),
        ),
        next=("livedbg stacks 4711 --native", "take both locks in one order, or use std::scoped_lock"),
        since_wall_ns=T0_WALL,
    )
    events = [
        process("./bank", "--tellers", "9", threads=13),
        *twice(threads, {}, 43),
        ev.ResourcesSeen(
            **stamp(2),
            resources=(
                Resource(id=a, kind="mutex", name="mutex 0x7f12a0c0", state="locked, 10 wait"),
                Resource(id=b, kind="mutex", name="mutex 0x7f12a0e8", state="locked, 1 waits"),
            ),
        ),
        ev.EdgesReplaced(**stamp(2), scope="proc", edges=tuple(edges)),
        ev.StacksSeen(**stamp(41), stacks=tuple(stacks)),
        *healthy(
            SourceStatus(
                source="python",
                target=PROCESS,
                health=SourceHealth.ENDED,
                code="no-python",
                sentence="This process runs no Python.",
            ),
        ),
        ev.Tick(**stamp(43)),
    ]
    verdict = Verdict(
        state=VerdictState.DEADLOCK, sentence=sentence, roots=(tid(4712), tid(4713)), since_wall_ns=T0_WALL
    )
    return FakeView("box:4711 ./bank --tellers 9", events, judge(verdict, finding), events_per_s=31)


def gil() -> FakeView:
    lock = f"gil:box/{PID}/0x55d0"
    threads = [
        thread(4711, "python", ThreadState.WAITING, "waits for the GIL"),
        thread(4712, "Thread-1 (loader", ThreadState.RUNNING),
        *(thread(4713 + n, f"Thread-{n + 2} (worker", ThreadState.WAITING, "waits for the GIL") for n in range(6)),
    ]
    waiters = [4711, *range(4713, 4719)]
    edges = [
        Edge(kind=EdgeKind.HOLDS, source=tid(4712), target=lock, evidence="_PyRuntime.gil.last_holder"),
        *(Edge(kind=EdgeKind.WAITS_FOR, source=tid(n), target=lock, evidence="take_gil in its stack") for n in waiters),
    ]
    take = ("take_gil", "ceval_gil.h", 254)
    stacks = [
        stack(4711, take, ("main", "train.py", 41), ("<module>", "train.py", 66), waits_gil=True),
        stack(
            4712,
            ("spin_forever", "ext.c", 17),
            ("py_load", "ext.c", 40),
            ("load", "loader.py", 12),
            ("run", "threading.py", 982),
            holds_gil=True,
        ),
        *(stack(n, take, ("step", "train.py", 23), ("run", "threading.py", 982), waits_gil=True) for n in waiters[1:]),
    ]
    sentence = (
        "Thread 4712 Thread-1 (loader has held the GIL for 43.0 s in spin_forever (ext.c:17); 7 threads wait for it."
    )
    finding = Finding(
        rule="gil-held",
        severity=Severity.ERROR,
        sentence=sentence,
        entities=(tid(4712), lock),
        evidence=(Evidence(kind="stack", source="py-spy of 4711", text="owns_gil: 4712"),),
        next=("release the GIL in ext.c around spin_forever (Py_BEGIN_ALLOW_THREADS)",),
        since_wall_ns=T0_WALL,
    )
    events = [
        process("python", "train.py", threads=8),
        *twice(threads, {4712: 1.0}, 43),
        ev.ResourcesSeen(**stamp(2), resources=(Resource(id=lock, kind="gil", name="the GIL", state="held"),)),
        ev.EdgesReplaced(**stamp(2), scope="python", edges=tuple(edges)),
        ev.StacksSeen(**stamp(41), stacks=tuple(stacks)),
        *healthy(),
        ev.Touched(
            **stamp(20),
            intrusion=Intrusion(
                target=PROCESS,
                what="glance",
                why="asked for: registers of the running thread 4712",
                paused_ns=83_000,
                stops=1,
                at_wall_ns=T0_WALL + 20 * S,
            ),
        ),
        ev.Tick(**stamp(43)),
    ]
    verdict = Verdict(state=VerdictState.STALLED, sentence=sentence, roots=(tid(4712),), since_wall_ns=T0_WALL)
    return FakeView("box:4711 python train.py", events, judge(verdict, finding), events_per_s=54)


def idle() -> FakeView:
    threads = [
        thread(4711, "serve", ThreadState.WAITING, "accept on 0.0.0.0:8080"),
        thread(4712, "worker-1", ThreadState.WAITING, "epoll of 3 fds"),
        thread(4713, "worker-2", ThreadState.WAITING, "epoll of 3 fds"),
    ]
    events = [
        process("serve", "--port", "8080", threads=3),
        *twice(threads, {}, 60),
        *healthy(),
        ev.Tick(**stamp(61)),
    ]
    verdict = Verdict(
        state=VerdictState.RUNNING,
        sentence="Nothing is stuck: the process waits for connections (accept on port 8080).",
    )
    return FakeView("box:4711 serve --port 8080", events, judge(verdict), events_per_s=2)
