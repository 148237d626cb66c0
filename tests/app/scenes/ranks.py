"""A job whose last rank does not come; the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.analysis.ranks import REACHED
from livedbg.model import Edge, EdgeKind, Frame, Process, Stack, Task, TaskState, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.state.store import Store
from tests.app.fakes import T0_MONO, T0_WALL, FakeView, S, stamp
from tests.app.graphs import PlainGraph

__all__ = ["TASK", "main_of", "missing_rank"]

TASK = "task:collective/dp.1/5"


def main_of(rank: int) -> str:
    """The main thread of a rank."""
    return f"thread:box/{100 + rank}/{100 + rank}"


def missing_rank(ranks: int = 3, threads: int = 1) -> FakeView:
    """So many ranks, in processes 100, 101, … of so many threads; each has reached #5 of its group, and the last #4."""
    last = ranks - 1
    events: list[ev.Event] = []
    for rank in range(ranks):
        pid = 100 + rank
        process = Process(
            id=f"process:box/{pid}", host="box", pid=pid, ppid=99, start_ticks=1, rank=rank,
            command=("python", "train.py"), exe="/usr/bin/python", state=ThreadState.WAITING, thread_count=threads,
        )  # fmt: skip
        events.append(ev.ProcessSeen(**stamp(), process=process))
        for group, number in (("dp.1", 4 if rank == last else 5), ("all", 2)):
            events.append(ev.CounterSeen(**stamp(), entity=process.id, name=REACHED + group, value=float(number)))
    all_threads = tuple(_threads(ranks, threads))
    events += [ev.ThreadsSeen(**stamp(0), threads=all_threads), ev.ThreadsSeen(**stamp(20), threads=all_threads)]
    lines = {rank: ("fetch_batch", 12) if rank == last else ("step", 31) for rank in range(ranks)}
    stacks = tuple(
        Stack(
            thread=main_of(rank), frames=(Frame(name, file="/srv/job/train.py", line=line, language="python"),),
            taken_mono_ns=T0_MONO + 20 * S, source="memory", layer="merged",
        )
        for rank, (name, line) in lines.items()
    )  # fmt: skip
    task = Task(
        id=TASK, system="pytorch", name="all_reduce #5", kernel="all_reduce", state=TaskState.RUNNING,
        since_wall_ns=T0_WALL,
    )  # fmt: skip
    waits = [Edge(kind=EdgeKind.WAITS_FOR, source=main_of(rank), target=TASK, evidence="") for rank in range(last)]
    late = Edge(kind=EdgeKind.WAITS_FOR, source=TASK, target=f"process:box/{100 + last}", evidence="")
    events += [
        ev.StacksSeen(**stamp(20), stacks=stacks),
        ev.TasksSeen(**stamp(20), tasks=(task,)),
        ev.EdgesReplaced(**stamp(20), scope="test", edges=(*waits, late)),
    ]
    sentence = f"Rank {last} of {ranks} has not entered all_reduce #5 of group dp; the others wait for it."
    verdict = Verdict(state=VerdictState.STALLED, sentence=sentence, roots=(main_of(last),))

    def judge(store: Store) -> Diagnosis:
        shot = store.snapshot()
        return Diagnosis(verdict, {}, PlainGraph(shot.edges), shot.revision)

    return FakeView("job", events, judge)


def _threads(ranks: int, threads: int) -> Iterator[Thread]:
    for pid in range(100, 100 + ranks):
        for number in range(threads):
            tid = pid if not number else pid * 1000 + number
            yield Thread(
                id=f"thread:box/{pid}/{tid}", process=f"process:box/{pid}", tid=tid, name="python",
                state=ThreadState.WAITING, waits_in="futex", syscall="futex", cpu_ns=S,
            )  # fmt: skip
