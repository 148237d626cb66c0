"""A state in which every text that a target can fill is hostile."""

from __future__ import annotations

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
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
    ThreadState,
)
from livedbg.model import events as ev
from tests.app.fakes import T0_MONO, T0_WALL, FakeView, stamp
from tests.app.hostile_strings import HOSTILE
from tests.app.scenes.parts import PID, PROCESS, judge, thread, twice


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
