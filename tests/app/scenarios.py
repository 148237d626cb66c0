"""Scripted states: what a session would say of a deadlock, a stalled NPU run, an idle server, …"""

from __future__ import annotations

from collections.abc import Sequence

from livedbg import events as ev
from livedbg.analysis.diagnosis import Diagnosis, Finding, Verdict, VerdictState
from livedbg.model import (
    Edge,
    EdgeKind,
    Evidence,
    Frame,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
)
from livedbg.store import Store
from tests.app.fakes import T0_MONO, T0_WALL, FakeTimeline, FakeView, S, stamp
from tests.app.graphs import PlainGraph
from tests.app.hostile_strings import HOSTILE

SCENARIOS = ("deadlock", "ascend", "idle", "gil", "recording", "hostile")
PID = 4711
PROCESS = f"process:box/{PID}"


def scenario(name: str) -> FakeView:
    """A view of one scripted state."""
    return {
        "deadlock": deadlock,
        "ascend": ascend,
        "idle": idle,
        "gil": gil,
        "recording": recording,
        "hostile": hostile,
    }[name]()


def tid(number: int) -> str:
    return f"thread:box/{PID}/{number}"


def process(*command: str, threads: int) -> ev.ProcessSeen:
    return ev.ProcessSeen(
        **stamp(),
        process=Process(
            id=PROCESS,
            host="box",
            pid=PID,
            start_ticks=1,
            command=command,
            exe=f"/usr/bin/{command[0]}",
            cwd="/srv/job",
            user="ada",
            state=ThreadState.WAITING,
            thread_count=threads,
        ),
    )


def thread(number: int, name: str, state: ThreadState, waits: str | None = None, cpu_s: float = 0.5) -> Thread:
    return Thread(
        id=tid(number),
        process=PROCESS,
        tid=number,
        name=name,
        state=state,
        waits_in=waits,
        cpu_ns=round(cpu_s * S),
        syscall="futex" if waits else None,
    )


def twice(threads: Sequence[Thread], busy: dict[int, float], seconds: float) -> list[ev.Event]:
    """Two looks at the same threads; `busy` ones used that share of a core between them."""
    again = [
        Thread(
            id=t.id,
            process=t.process,
            tid=t.tid,
            name=t.name,
            state=t.state,
            waits_in=t.waits_in,
            syscall=t.syscall,
            cpu_ns=(t.cpu_ns or 0) + round(busy.get(t.tid, 0) * S),
        )
        for t in threads
    ]
    return [
        ev.ThreadsSeen(**stamp(0), threads=tuple(threads)),
        ev.ThreadsSeen(**stamp(seconds - 1), threads=tuple(again)),
        ev.ThreadsSeen(
            **stamp(seconds),
            threads=tuple(
                Thread(
                    id=t.id,
                    process=t.process,
                    tid=t.tid,
                    name=t.name,
                    state=t.state,
                    waits_in=t.waits_in,
                    syscall=t.syscall,
                    cpu_ns=(t.cpu_ns or 0) + round(busy.get(t.tid, 0) * S),
                )
                for t in again
            ),
        ),
    ]


def healthy(*more: SourceStatus) -> list[ev.Event]:
    seen = [
        SourceStatus(source="proc", target=PROCESS, health=SourceHealth.OK),
        SourceStatus(source="native", target=PROCESS, health=SourceHealth.OK),
        *more,
    ]
    return [ev.StatusSeen(**stamp(1), status=status) for status in seen]


def stack(number: int, *frames: tuple[str, str, int], python: Sequence[str] = (), **more: bool) -> Stack:
    return Stack(
        thread=tid(number),
        frames=tuple(
            Frame(f, file=file, line=line, language="python" if file.endswith(".py") else "native")
            for f, file, line in frames
        ),
        taken_mono_ns=T0_MONO + 41 * S,
        source="zero+py-spy" if any(f[1].endswith(".py") for f in frames) else "zero",
        layer="merged",
        **more,
    )


def judge(verdict: Verdict, *findings: Finding):
    def diagnose(store: Store) -> Diagnosis:
        shot = store.snapshot()
        named = {f"F{number}": finding for number, finding in enumerate(findings, 1)}
        return Diagnosis(verdict, named, PlainGraph(shot.edges), shot.revision)

    return diagnose


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


def ascend() -> FakeView:
    kernels = ["moe_gate", "moe_route", "moe_scale", "combine", "layernorm", "attention", "residual"]
    done = [
        Task(
            id=f"task:ascend/r0t{n + 100}",
            system="ascend",
            name=f"r0t{n + 100}",
            kernel=kernels[n % 7],
            state=TaskState.COMPLETED,
            since_wall_ns=T0_WALL - 5 * S,
        )
        for n in range(4201)
    ]
    root = "task:ascend/r0t12"
    running = Task(
        id=root,
        system="ascend",
        name="r0t12",
        kernel="moe_gate",
        state=TaskState.RUNNING,
        since_wall_ns=T0_WALL,
        where=("core:ascend/10",),
        owner="scheduler thread 0",
        fanin_left=0,
        fanin_total=3,
    )
    fan = {13: [12], 14: [12], 15: [13, 14], 16: [15], 17: [15], 18: [16, 17], **{n: [n - 1] for n in range(19, 30)}}
    waiting = [
        Task(
            id=f"task:ascend/r0t{n}",
            system="ascend",
            name=f"r0t{n}",
            kernel=kernels[(n - 12) % 7],
            state=TaskState.SUBMITTED,
            since_wall_ns=T0_WALL,
            fanin_left=len(needs),
            fanin_total=len(needs) + n % 2,
        )
        for n, needs in fan.items()
    ]
    edges = [
        Edge(kind=EdgeKind.DEPENDS_ON, source=f"task:ascend/r0t{n}", target=f"task:ascend/r0t{m}", evidence="deps.json")
        for n, needs in fan.items()
        for m in needs
    ]
    names = ["simpler", "sched-0", "sched-1", "aicore-10", "watchdog"]
    states = [ThreadState.WAITING, ThreadState.RUNNING, ThreadState.RUNNING, ThreadState.RUNNING, ThreadState.WAITING]
    waits = ["futex", None, None, None, "sleep 1 s"]
    threads = [thread(4711 + n, name, states[n], waits[n]) for n, name in enumerate(names)]
    device, host = "log:box/device-0", "log:box/scheduler"
    records = [
        LogRecord(
            source=host,
            text="[STRACE] v=1 pid=4711 depth=1 name=chip.run.bind",
            severity=Severity.INFO,
            wall_ns=T0_WALL - S,
            line=1,
        ),
        *(
            LogRecord(
                source=device,
                wall_ns=T0_WALL - (40 - n) * 10_000_000,
                line=n + 1,
                severity=Severity.DEBUG,
                text=f"Thread 1: Dispatched idle aiv0 task {n + 60} kernel_id=[-1,{n % 7},-1] block_idx=0/total_blocks=1 core_id={8 + n % 4}",  # noqa: E501
            )
            for n in range(40)
        ),
        LogRecord(
            source=device,
            wall_ns=T0_WALL + 204_000_000,
            line=41,
            severity=Severity.DEBUG,
            links=(root, "core:ascend/10"),
            text="Thread 1: Dispatched idle aiv0 task 12 kernel_id=[-1,3,-1] block_idx=0/total_blocks=1 to core_offset=3 core_id=10 reg_task_id=3",  # noqa: E501
        ),
        LogRecord(
            source=device,
            wall_ns=T0_WALL + 10 * S,
            line=42,
            severity=Severity.WARNING,
            links=(root,),
            text="[STALL thread=0 idle_iterations=10091] TASK ring=0 task_id=12 state=RUNNING fanin_refcount=3/3 running_on=[owner_thread=0 cores=[core=10(aiv0)]]",  # noqa: E501
        ),
        LogRecord(
            source=device,
            wall_ns=T0_WALL + 40 * S,
            line=43,
            severity=Severity.ERROR,
            links=(root,),
            text="TIMEOUT_EXIT after_idle_iterations=480000 sub_class=S1:running-stalled completed=4201/4219 running=1 ready=0 waiting=17 stuck_task_id=12 stuck_core=10",  # noqa: E501
        ),
    ]
    sentence = "Task r0t12 moe_gate has been RUNNING on core 10 (AIV0) for 43.1 s; 17 tasks wait behind it, 2 of them directly."  # noqa: E501
    finding = Finding(
        rule="task-running-too-long",
        severity=Severity.ERROR,
        sentence=sentence,
        entities=(root, "core:ascend/10"),
        evidence=(
            Evidence(
                kind="log",
                source="device-0:43",
                text="sub_class=S1:running-stalled stuck_task_id=12",
                at_wall_ns=T0_WALL + 40 * S,
            ),
            Evidence(
                kind="log",
                source="device-0:41",
                text="Dispatched idle aiv0 task 12",
                at_wall_ns=T0_WALL + 204_000_000,
            ),
            Evidence(
                kind="inference",
                source="4,201 completed runs",
                text="moe_gate took 0.4 ms in the mean, 0.9 ms at most",
            ),
        ),
        next=("look at what kernel 3 (moe_gate) waits for: a flag that nobody sets", "livedbg stacks 4711 --native"),
        since_wall_ns=T0_WALL,
    )
    events = [
        process("python", "moe.py", "--layers", "2", threads=5),
        *twice(threads, {4712: 0.99, 4713: 0.98, 4714: 1.0}, 43),
        ev.TasksSeen(**stamp(1), tasks=tuple(done)),
        ev.TasksSeen(**stamp(2), tasks=(running, *waiting)),
        ev.ResourcesSeen(
            **stamp(2), resources=(Resource(id="core:ascend/10", kind="core", name="core 10 (AIV0)", state="busy"),)
        ),
        ev.EdgesReplaced(**stamp(2), scope="deps", edges=tuple(edges)),
        ev.LogSourceSeen(
            **stamp(2), source=LogSource(id=host, name="scheduler", path="/srv/log/host.log", format="simpler-host")
        ),
        ev.LogSourceSeen(
            **stamp(2),
            source=LogSource(id=device, name="device-0", path="/srv/log/device-0.log", format="simpler-sim"),
        ),
        ev.LogsSeen(**stamp(40), records=tuple(records)),
        *healthy(
            SourceStatus(
                source="ascend",
                target=PROCESS,
                health=SourceHealth.DEGRADED,
                code="no-args-dump",
                sentence="The argument dump is written only when the run drains, so arguments can't be shown.",
                remedy="livedbg launch --recipe ascend-dump -- python moe.py",
            ),
        ),
        ev.Tick(**stamp(43.1)),
    ]
    verdict = Verdict(state=VerdictState.STALLED, sentence=sentence, roots=(root,), since_wall_ns=T0_WALL)
    return FakeView("box:4711 python moe.py --layers 2", events, judge(verdict, finding), events_per_s=12_100)


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


def recording() -> FakeView:
    view = ascend()
    view.mode, view.timeline, view.title = "replay", FakeTimeline(), "moe-hang.ldbg"
    return view


def hostile() -> FakeView:
    """Every hostile string in every field that a target can fill."""
    threads = [thread(4711 + n, text, ThreadState.WAITING, text) for n, text in enumerate(HOSTILE)]
    tasks = [
        Task(
            id=f"task:evil/t{n}",
            system=text,
            name=text,
            kernel=text,
            state=TaskState.RUNNING,
            where=(text,),
            owner=text,
            attributes={"x": text},
        )
        for n, text in enumerate(HOSTILE)
    ]
    records = [
        LogRecord(
            source="log:box/evil",
            text=text,
            severity=Severity.ERROR,
            wall_ns=T0_WALL,
            line=n + 1,
            links=(f"task:evil/t{n}",),
        )
        for n, text in enumerate(HOSTILE)
    ]
    everything = " ".join(HOSTILE)
    finding = Finding(
        rule="evil",
        severity=Severity.ERROR,
        sentence=everything,
        entities=tuple(task.id for task in tasks),
        evidence=tuple(Evidence(kind="log", source=text, text=text) for text in HOSTILE),
        next=HOSTILE,
    )
    events = [
        ev.ProcessSeen(
            **stamp(),
            process=Process(id=PROCESS, host="box", pid=PID, command=HOSTILE, exe=everything, cwd=everything),
        ),
        *twice(threads, {}, 43),
        ev.TasksSeen(**stamp(2), tasks=tuple(tasks)),
        ev.EdgesReplaced(
            **stamp(2),
            scope="evil",
            edges=tuple(
                Edge(kind=EdgeKind.WAITS_FOR, source=tasks[n].id, target=tasks[0].id, evidence=everything)
                for n in range(1, len(tasks))
            ),
        ),
        ev.ResourcesSeen(
            **stamp(2),
            resources=tuple(
                Resource(id=f"mutex:box/{PID}/{n:#x}", kind=text, name=text, state=text)
                for n, text in enumerate(HOSTILE)
            ),
        ),
        ev.StacksSeen(
            **stamp(41),
            stacks=tuple(
                Stack(
                    thread=t.id,
                    frames=(Frame(text, file=text, line=1, module=text),),
                    taken_mono_ns=T0_MONO,
                    source=text,
                    note=text,
                    partial=True,
                )
                for t, text in zip(threads, HOSTILE, strict=True)
            ),
        ),
        ev.LogSourceSeen(
            **stamp(2), source=LogSource(id="log:box/evil", name=everything, path=everything, format=everything)
        ),
        ev.LogsSeen(**stamp(3), records=tuple(records)),
        *(
            ev.StatusSeen(
                **stamp(4),
                status=SourceStatus(
                    source=text, target=text, health=SourceHealth.FAILED, code=f"c{n}", sentence=text, remedy=text
                ),
            )
            for n, text in enumerate(HOSTILE)
        ),
        *(ev.Touched(**stamp(5), intrusion=Intrusion(target=PROCESS, what=text, why=text)) for text in HOSTILE),
        ev.Tick(**stamp(43)),
    ]
    verdict = Verdict(state=VerdictState.STALLED, sentence=everything, roots=("task:evil/t0",), since_wall_ns=T0_WALL)
    return FakeView(everything, events, judge(verdict, finding), events_per_s=1)
