"""Find the blocking and waiting tasks of a run: from the log if it shows them, else inferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.ascend.job import Job, Suspicion
from livedbg.adapters.ascend.names import local_of, ring_of
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.stalls import Stall
from livedbg.adapters.ascend.tasks import TaskRecord
from livedbg.adapters.ascend.trouble import Trouble
from livedbg.model import Edge, EdgeKind, EdgeState, TaskState

_MOST_EDGES: Final = 20_000
"""Edges between each that waits and each that it may wait for; 20,000 tasks and 72 cores would have over a million."""


def suspects(job: Job) -> Suspicion:
    """Return the blocking tasks, as far as the log tells."""
    run, stall, trouble = job.run, job.stalls.stall, job.trouble
    if stall is not None and stall.running:
        return Suspicion(tuple(sorted(stall.running)), True, "the watchdog's dump says that it is running")
    if stall is not None and stall.ready:
        return Suspicion(tuple(sorted(stall.ready)), True, "the watchdog's dump says that it is ready and on no core")
    if trouble.ring is not None and (trouble.ring.never_fits or trouble.ring.active == 0):
        return Suspicion()
    if trouble.ring is not None and trouble.ring.oldest is not None and trouble.ring.head_state is None:
        oldest = [task for task in run.in_flight() if local_of(task.raw) == trouble.ring.oldest]
        return _named(oldest, "it may be the oldest task of the full pool's ring, and is not known to have completed")
    if trouble.ring is not None and trouble.ring.head_state == 0 and trouble.ring.head is not None:
        return _blocking_producers(
            run, trouble.ring.head, "it is the oldest task of the full ring and has not completed"
        )
    if trouble.tensor is not None and not trouble.tensor.consumers:
        return _blocking_producers(run, trouble.tensor.task, "the orchestrator waited for its output")
    return _in_flight(run)


def _blocking_producers(run: Run, raw: int, reason: str) -> Suspicion:
    """Return the task itself, or its unmet dependencies if the graph and its state show that it isn't running."""
    record = run.task(raw)
    if record.state is TaskState.SUBMITTED and run.graph is not None:
        seen, todo, found = {raw}, [raw], []
        while todo:
            task = todo.pop()
            open_before = [p for p in run.graph.predecessors.get(task, ()) if run.task(p).open]
            if not open_before:
                found.append(task)
            todo += [p for p in open_before if p not in seen]
            seen.update(open_before)
        return Suspicion(tuple(sorted(found)), True, reason)
    return Suspicion((raw,), True, reason)


def _in_flight(run: Run) -> Suspicion:
    """Return dispatched tasks that are not known to have completed.

    Tasks whose kernel has never completed in this log are preferred.
    """
    flying = run.in_flight()
    if not flying:
        return Suspicion()
    never = [t for t in flying if not run.history[t.kernels]]
    if never and len(never) < len(flying):
        return _named(never, "its kernel has not completed once in this log, the others' have")
    return _named(flying, "it was dispatched and is not known to have completed")


def _named(records: list[TaskRecord], reason: str) -> Suspicion:
    return Suspicion(tuple(t.raw for t in records), False, reason)


def wait_edges(job: Job) -> Iterator[Edge]:
    """Yield the edges from waiting tasks to the suspects that neither the graph nor memory tells.

    In a quiet job, open tasks count as waiting.
    """
    run, stall, trouble = job.run, job.stalls.stall, job.trouble
    stuck = stall is not None or trouble.ring is not None or trouble.tensor is not None or job.quiet
    if run.phase == "completed" or not stuck:
        return
    if run.graph is None and not job.live.speaks:
        yield from _undeclared(run, job.suspicion, stall)
    told = stall is not None and stall.orchestrator_done is not False
    yield from _orchestrator(run, job.suspicion, trouble, job.quiet and not told)


def _undeclared(run: Run, suspicion: Suspicion, stall: Stall | None) -> Iterator[Edge]:
    """Yield edges without a graph: a waiting task can only wait for open tasks submitted before it."""
    names = run.names
    single = len(suspicion.tasks) == 1
    waiting = [t for t in run.tasks.values() if t.state is TaskState.SUBMITTED and t.raw not in suspicion.tasks]
    alone = single and len(waiting) == 1
    dumped = _dumped(run, stall)
    if not single:
        why = "it waits, and this is one of the tasks that are still open (no task graph was written)"
    elif suspicion.certain:
        why = "it waits, and no other task is running or ready"
    else:
        why = f"it waits, and of the tasks that are open this is the likeliest: {suspicion.reason}"
    whole = _MOST_EDGES // max(1, len(suspicion.tasks))
    for number, record in enumerate(waiting):
        before = _before(record, dumped) if record.raw in run.confirmed else ()
        sure = before or (suspicion.tasks if alone and record.missing == 1 else ())
        behind = sure or suspicion.tasks
        if number >= whole and not single and behind:  # each has one edge then: who waits is counted all the same
            behind = (behind[number % len(behind)],)
        for raw in behind:
            yield Edge(
                kind=EdgeKind.DEPENDS_ON,
                source=names.task(record.raw),
                target=names.task(raw),
                evidence="so many dependencies are missing as tasks before it are open" if before else why,
                any_of=not (single or sure),
                inferred=not sure,
            )


def _dumped(run: Run, stall: Stall | None) -> tuple[TaskRecord, ...]:
    """Return all open tasks if their number equals the newest dump's counts; else none."""
    counts = (run.counts.running, run.counts.ready, run.counts.waiting)
    known = [count for count in counts if count is not None]
    if stall is None or len(known) < len(counts):
        return ()
    found = tuple(task for task in run.tasks.values() if task.open)
    return found if len(found) == sum(known) else ()


def _before(record: TaskRecord, dumped: Sequence[TaskRecord]) -> tuple[int, ...]:
    """Return the dependencies of a task: all open tasks possibly submitted before it, if that many are unmet."""
    ring, local = ring_of(record.raw), local_of(record.raw)
    before = [task.raw for task in dumped if ring_of(task.raw) != ring or local_of(task.raw) < local]
    return tuple(before) if len(before) == record.missing else ()


def _orchestrator(run: Run, suspicion: Suspicion, trouble: Trouble, guess: bool) -> Iterator[Edge]:
    """Yield what the submitting thread waits for; `guess`: even if no line says so."""
    names = run.names
    ring, tensor = trouble.ring, trouble.tensor
    if tensor is not None:
        yield Edge(
            kind=EdgeKind.WAITS_FOR,
            source=names.orchestrator,
            target=names.task(tensor.task),
            evidence=f"{tensor.mark.source}: {tensor.mark.text}",
            inferred=tensor.consumers,
            timed=True,
        )
    elif ring is not None and ring.ring is not None and not (ring.host_built or ring.never_fits):
        where = f"{ring.mark.source}: {ring.mark.text}"
        resource = names.ring(ring.ring)
        yield Edge(kind=EdgeKind.WAITS_FOR, source=names.orchestrator, target=resource, evidence=where, timed=True)
        if ring.head is not None and ring.head_state == 0 and not ring.by_scope:
            yield Edge(kind=EdgeKind.HOLDS, source=names.task(ring.head), target=resource, evidence=where)
        elif ring.by_scope or not ring.scope_released:
            yield Edge(kind=EdgeKind.HOLDS, source=names.orchestrator, target=resource, evidence=where)
    elif guess and run.orchestrator == "submitting" and suspicion.tasks:
        for raw in suspicion.tasks:
            yield Edge(
                kind=EdgeKind.WAITS_FOR,
                source=names.orchestrator,
                target=names.task(raw),
                state=EdgeState.PENDING,
                evidence="it has not finished submitting, and nothing else is going on",
                any_of=len(suspicion.tasks) > 1,
                inferred=True,
            )
