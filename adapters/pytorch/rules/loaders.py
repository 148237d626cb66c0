"""Rule for a process whose DataLoader waits for a worker that is stuck."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.adapters.pytorch.rules.absent import absence_of
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.adapters.pytorch.rules.wakers import owing_workers
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import (
    duration,
    edge_evidence,
    name_of,
    pids_of,
    since_wall_ns,
    thread_evidence,
    waited_ns,
)
from livedbg.model import Severity, Thread, WaitKind
from livedbg.text.wording import sentence_case

_LONG_SLEEP_S: Final = 600.0
"""A worker that sleeps for so long does not load anything meanwhile."""


class LoaderWorker:
    """A worker of a DataLoader that owes a batch, and is stuck."""

    name = "loader-worker"
    doc = (
        "A main thread waits for the next batch of a DataLoader, and the worker that has to give it has been in one "
        "wait for the threshold (10 s), or sleeps for ten minutes or longer. It is a stall if nothing is seen that may "
        "end that wait, else `unknown`, with who may. Rests on the DataLoader's own tables in memory (whose task the "
        "batch is), and on what the worker waits for."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for process in state.snapshot.processes.values():
            main = main_thread(process.id, state) if process.target and not process.exited else None
            workers = owing_workers(main, state) if main is not None else []
            if main is not None and len(workers) == 1:
                yield from self._finding(main, workers[0], state)

    def _finding(self, main: Thread, worker: Thread, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        found = absence_of(main.process, state)
        end = snapshot.threads.get(found.entity, worker)
        sleeps, waited = end.sleeps_s or 0.0, waited_ns(end, snapshot) or 0
        if found.busy or found.state is VerdictState.RUNNING or waited < state.settings.thread_stall_ns:
            return
        does = found.what.partition(": it ")[2]
        long = sleeps >= _LONG_SLEEP_S
        if end.wait is WaitKind.SLEEP:
            if not long:
                return
            does = f"sleeps for {duration(int(sleeps * 1e9))}{at(end.id, state)}"
        proof = edge_evidence(main.id, worker.id, snapshot)
        yield Finding(
            rule=self.name,
            severity=Severity.CRITICAL,
            sentence=(
                f"{sentence_case(name_of(main.id, snapshot))} waits{at(main.id, state)} for a batch of its DataLoader: "
                f"worker {name_of(worker.id, snapshot)} {does}."
            ),
            entities=(main.id, worker.id, end.id),
            evidence=(*((proof,) if proof is not None else ()), thread_evidence(worker, state)),
            next=tuple(f"livedbg stacks {pid}" for pid in pids_of((worker.id,))),
            since_wall_ns=since_wall_ns(end, snapshot),
            state=VerdictState.STALLED if long else found.state,
            decides=True,
            roots=(end.id,),
            who=main.id,
            holder=worker.id,
        )
