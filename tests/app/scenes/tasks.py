"""States of a runtime's tasks: a stalled NPU run with thousands of tasks, live and as a recording."""

from __future__ import annotations

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.model import (
    Edge,
    EdgeKind,
    Evidence,
    LogRecord,
    LogSource,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Task,
    TaskState,
    ThreadState,
)
from livedbg.model import events as ev
from tests.app.fakes import T0_WALL, FakeTimeline, FakeView, S, stamp
from tests.app.scenes.parts import PROCESS, healthy, judge, process, thread, twice


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
                file="device-0",
                line=43,
                text="sub_class=S1:running-stalled stuck_task_id=12",
                at_wall_ns=T0_WALL + 40 * S,
            ),
            Evidence(
                kind="log",
                file="device-0",
                line=41,
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


def recording() -> FakeView:
    view = ascend()
    view.mode, view.timeline, view.title = "replay", FakeTimeline(), "moe-hang.ldbg"
    return view
