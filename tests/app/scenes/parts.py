"""What scripted states are made of: one process with its threads, stacks, healthy sources, a fixed verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from livedbg.analysis.diagnosis import Diagnosis, Finding, Verdict
from livedbg.model import Frame, Process, SourceHealth, SourceStatus, Stack, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.state.store import Store
from tests.app.fakes import T0_MONO, S, stamp
from tests.app.graphs import PlainGraph

PID = 4711
PROCESS = f"process:box/{PID}"


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


def stack(
    number: int, *frames: tuple[str, str, int], source: tuple[int, int, Sequence[str]] | None = None, **more: bool
) -> Stack:
    """A stack; `source`: number of a frame, number of its first source line, lines."""
    made = [
        Frame(f, file=file, line=line, language="python" if file.endswith(".py") else "native")
        for f, file, line in frames
    ]
    if source is not None:
        place, first, lines = source
        made[place] = msgspec.structs.replace(made[place], source=tuple(lines), source_from=first)
    return Stack(
        thread=tid(number),
        frames=tuple(made),
        taken_mono_ns=T0_MONO + 41 * S,
        source="no stop+py-spy" if any(f[1].endswith(".py") for f in frames) else "no stop",
        layer="merged",
        **more,
    )


def judge(verdict: Verdict, *findings: Finding):
    def diagnose(store: Store) -> Diagnosis:
        shot = store.snapshot()
        named = {f"F{number}": finding for number, finding in enumerate(findings, 1)}
        says = next((name for name, finding in named.items() if verdict.sentence.startswith(finding.sentence)), "")
        return Diagnosis(msgspec.structs.replace(verdict, chief=says), named, PlainGraph(shot.edges), shot.revision)

    return diagnose
