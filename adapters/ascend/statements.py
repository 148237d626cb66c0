"""What a job's log and files say about its health, as diagnostics (`model.Diagnostic`).

Codes: `run-state` (always), `run-complete`, `stall-summary`, `timeout-exit`, `watchdog-starved`,
`core-anomaly`, `core-unresponsive`, `ring-full`, `tensor-wait-timeout`, `fatal`, `terminate`,
`runtime-failed`, `machine-busy`, `missing-edge`, `flag-cycle`, `shared-log`. All carry the attribute `scope`: which
job they speak of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.codes import error_code, stall_class, whole_graph
from livedbg.adapters.ascend.dumps.terms import next_of, why_of
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import NOWHERE, Mark
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.stalls import Stall
from livedbg.graphs.lost import grouped
from livedbg.model import Diagnostic, Severity
from livedbg.text.wording import many

__all__ = ["STARVED_BELOW", "said", "statements"]

STARVED_BELOW: Final = 300
"""A scheduler thread that runs turns its idle loop more often than this in a second (measured on the simulator: 1,261
to 40,000 when it ran, 87 when it was stopped)."""

_LOST_SHOWN: Final = 20  # kinds of lost orders that one run reports one by one


def statements(job: Job) -> Iterator[Diagnostic]:
    """All that can be said of a job now; each id once."""
    run = job.run
    if run.phase == "unknown" and not run.tasks and job.trouble.crash is None:
        return
    yield _run_state(job)
    if job.live is not None:
        for code, sentence, more, about in job.live.statements():
            entities = (f"{job.names.task(0).rpartition('/')[0]}/{about}",) if about else ()
            yield said(job, code, Severity.WARNING, sentence, entities=entities, attributes=more, detail=about)
    if run.phase == "completed":
        yield said(job, "run-complete", Severity.INFO, _complete_sentence(job), marks=(job.last_mark,))
    stall = job.stalls.stall
    if stall is not None and run.phase != "completed":
        yield from _stalled(job, stall)
    yield from _trouble(job)
    yield from _crashed(job)
    yield from _lost(job)
    if job.shared:
        devices = ", ".join(str(device) for device in sorted(job.chips.values()))
        sentence = (
            f"{len(job.chips)} chip processes (devices {devices}) write into this one log without marks: "
            "equal task ids of different devices can't be told apart."
        )
        yield said(job, "shared-log", Severity.WARNING, sentence)


def said(
    job: Job,
    code: str,
    severity: Severity,
    sentence: str,
    *,
    entities: tuple[str, ...] = (),
    attributes: dict[str, str] | None = None,
    marks: tuple[Mark | None, ...] = (),
    detail: object = "",
) -> Diagnostic:
    """A statement about a job.

    Args:
        job: the job.
        code: the kind of statement.
        severity: how bad it is.
        sentence: what it means.
        entities: what it is about.
        attributes: its fields.
        marks: the lines that say it.
        detail: tells it from others of its kind.
    """
    real = [mark for mark in marks if mark is not None and mark.source]
    return Diagnostic(
        id=job.names.diagnostic(code, detail),
        system="ascend",
        code=code,
        severity=severity,
        sentence=sentence,
        entities=entities,
        attributes={"scope": job.names.scope, **(attributes or {})},
        evidence=tuple(mark.evidence() for mark in real),
        at_wall_ns=real[0].wall_ns if real else None,
    )


def _run_state(job: Job) -> Diagnostic:
    run, counts, suspicion = job.run, job.run.counts, job.suspicion
    numbers = {
        name: str(value)
        for name in ("completed", "total", "running", "ready", "waiting")
        if (value := getattr(counts, name)) is not None
    }
    attributes = {
        "phase": run.phase,
        "place": job.place,
        "orchestrator": run.orchestrator,
        "building": "yes" if run.building else "no",
        "certain": "yes" if suspicion.certain else "no",
        "reason": suspicion.reason,
        "quiet": "yes" if job.quiet else "no",
        "last_wall_ns": str(job.last_wall_ns or ""),
        "status": str(job.trouble.status or ""),
        "graph": "yes" if run.graph is not None or (job.live is not None and job.live.speaks) else "no",
        **numbers,
    }
    marks = [_task_mark(job, raw) for raw in suspicion.tasks[:8]] if run.phase != "completed" else []
    if not suspicion.certain:
        marks.append(job.last_mark)
    return said(
        job,
        "run-state",
        Severity.INFO,
        _complete_sentence(job) if run.phase == "completed" else _progress_sentence(job),
        entities=tuple(job.names.task(raw) for raw in suspicion.tasks) if run.phase != "completed" else (),
        attributes=attributes,
        marks=tuple(marks),
    )


def _task_mark(job: Job, raw: int) -> Mark:
    record = job.run.tasks.get(raw)
    if record is None or not record.evidence:
        return NOWHERE
    at = record.evidence_wall_ns
    return Mark(record.evidence, record.evidence_text, at, at is not None)


def _complete_sentence(job: Job) -> str:
    total = job.run.counts.total
    return f"The run completed: {total} of {total} tasks." if total else "The run completed."


def _progress_sentence(job: Job) -> str:
    counts = job.run.counts
    done = counts.completed if counts.completed is not None else job.run.done
    return (
        f"The run has completed {done} of {counts.total if counts.total is not None else 'an unknown number of'} tasks."
    )


def _stalled(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    counts = job.run.counts
    entities = tuple(job.names.task(raw) for raw in job.suspicion.tasks)
    sub_class = stall.sub_class or stall.class_by(counts)
    attributes = {
        "idle_iterations": str(stall.idle),
        "sub_class": sub_class,
        "sub_class_by": "counts" if sub_class and not stall.sub_class else "",
        "code": _named_code(100),
        "advice": stall_class(sub_class).advice if sub_class else "",
        "drained": "yes" if stall.drained is not None else "no",
    }
    if stall.orchestrator_done is not None:
        attributes["orch_done"] = "yes" if stall.orchestrator_done else "no"
    known = counts.completed is not None
    done = f"{counts.completed} of {counts.total} tasks are done" if known else "its line has no counts"
    if not stall.exit:
        sentence = f"The scheduler reports no progress for {stall.idle} idle iterations; {done}."
        yield said(
            job,
            "stall-summary",
            Severity.WARNING,
            sentence,
            entities=entities,
            attributes=attributes,
            marks=(stall.mark,),
        )
    else:
        why = f" ({sub_class}: {stall_class(sub_class).meaning})" if sub_class else ""
        sentence = f"The scheduler's watchdog ended the run{why}; {done}."
        yield said(
            job,
            "timeout-exit",
            Severity.ERROR,
            sentence,
            entities=entities,
            attributes=attributes,
            marks=(stall.mark, stall.drained),
        )
        hung = job.trouble.unacknowledged or any(core.stuck for core in job.run.cores.values())
        load = job.loads.around(stall.mark.wall_ns)
        if job.starved(stall.idle, STARVED_BELOW) and not hung:
            sentence = (
                f"The watchdog fired after only {stall.idle} idle iterations: the scheduler was paused or got no "
                "processor time, so this time-out does not show a stall."
            )
            attributes |= {"load": load.words() if load is not None else ""}
            yield said(job, "watchdog-starved", Severity.WARNING, sentence, attributes=attributes, marks=(stall.mark,))
        elif load is not None and load.crowded:
            sentence = f"The machine was busy when the watchdog fired: {load.words()}."
            yield said(job, "machine-busy", Severity.INFO, sentence, attributes={"load": load.words()})
    for core, task in sorted(stall.anomalies.items()):
        sentence = (
            f"Core {core} has finished task {task_name(task)} (its register says fin), but the scheduler has not "
            "collected it."
        )
        yield said(
            job,
            "core-anomaly",
            Severity.ERROR,
            sentence,
            entities=(job.names.core(core), job.names.task(task)),
            marks=(stall.mark,),
            detail=core,
        )


def _trouble(job: Job) -> Iterator[Diagnostic]:
    trouble = job.trouble
    ring, tensor, fatal = trouble.ring, trouble.tensor, trouble.fatal
    if ring is not None:
        head = (
            f"; its oldest task, {task_name(ring.head)}, has not completed"
            if ring.head_state == 0 and ring.head is not None
            else ""
        )
        sentence = f"{ring.resource.rstrip('!')}: the orchestrator can't submit another task{head}."
        entities: tuple[str, ...] = (job.names.orchestrator,)
        if ring.ring is not None:
            entities += (job.names.ring(ring.ring),)
        if ring.head is not None:
            entities += (job.names.task(ring.head),)
        attributes = {
            "head": job.names.task(ring.head) if ring.head is not None else "",
            "head_open": "yes" if ring.head_state == 0 else "no",
            "active": ring.active,
            "by_scope": "yes" if ring.by_scope else "no",
            "host_built": "yes" if ring.host_built else "no",
            "code": _named_code(fatal.code if fatal is not None else 0),
            "advice": error_code(fatal.code).advice if fatal is not None and fatal.code else "",
        }
        yield said(
            job, "ring-full", Severity.ERROR, sentence, entities=entities, attributes=attributes, marks=(ring.mark,)
        )
    if tensor is not None:
        who = "the consumers of task" if tensor.consumers else "task"
        sentence = f"The orchestrator gave up waiting for {who} {task_name(tensor.task)}."
        yield said(
            job,
            "tensor-wait-timeout",
            Severity.ERROR,
            sentence,
            entities=(job.names.orchestrator, job.names.task(tensor.task)),
            attributes={"consumers": "yes" if tensor.consumers else "no", "code": _named_code(8)},
            marks=(tensor.mark,),
        )
    if fatal is not None:
        code = error_code(fatal.code or _code(job))
        if ring is not None and ring.host_built:
            code = whole_graph(code)
        sentence = f"{fatal.func or 'The runtime'} reported fatal error {code.number} ({code.name}): {code.meaning}."
        attributes = {
            "error_code": str(code.number),
            "name": code.name,
            "message": fatal.text,
            "hint": trouble.hint,
            "advice": code.advice,
            "blame": code.blame,
        }
        yield said(job, "fatal", Severity.ERROR, sentence, attributes=attributes, marks=(fatal.mark,))
    if trouble.status and not trouble.only_deinit(job.run):
        code = error_code(_code(job) or trouble.status)
        if ring is not None and ring.host_built:
            code = whole_graph(code)
        sentence = f"The run failed with code {trouble.status} ({code.name}): {code.meaning}."
        if trouble.status == -1 and not _code(job) and fatal is None:
            code = error_code(0)
            sentence = _unexplained(trouble.call)
        attributes = {
            "error_code": str(code.number),
            "status": str(trouble.status),
            "call": trouble.call,
            "detail": trouble.detail,
            "hint": trouble.hint,
            "advice": code.advice,
            "blame": code.blame,
        }
        yield said(job, "runtime-failed", Severity.ERROR, sentence, attributes=attributes, marks=(trouble.status_mark,))
    stuck = [core.number for core in job.run.cores.values() if core.stuck]
    if trouble.unacknowledged or stuck:
        number = trouble.unacknowledged or len(stuck)
        cores = tuple(job.names.core(core) for core in sorted(stuck))
        sentence = f"{many(number, 'core')} did not answer the request to exit: the kernel still runs."
        marks = (trouble.unacknowledged_mark,)
        yield said(job, "core-unresponsive", Severity.WARNING, sentence, entities=cores, marks=marks)


def _unexplained(call: str) -> str:
    """The sentence on a run that failed with -1, by the host's call that failed."""
    if call == "prepare_native_run":
        return (
            "The run failed with code -1 while it was prepared, before any of its tasks was started, and the log does "
            "not say why. With host_build_graph, which runs the orchestration code in that step, an exception that "
            "this code throws ends so, without a word."
        )
    return (
        "The run failed with code -1, and the log does not say which failure that is: SCOPE_DEADLOCK (1), a device "
        "that was unusable before, or a step that failed for another cause."
    )


def _named_code(number: int) -> str:
    """`code 3, FLOW_CONTROL_DEADLOCK`."""
    return f"code {number}, {error_code(number).name}" if number else ""


def _code(job: Job) -> int:
    return job.trouble.orch_code or job.trouble.sched_code


def _crashed(job: Job) -> Iterator[Diagnostic]:
    crash = job.trouble.crash
    if crash is None:
        return
    message = f": {crash.message}" if crash.message else ""
    sentence = f"The process ended with {crash.what}{message}."
    attributes = {"type": crash.what, "message": crash.message}
    yield said(job, "terminate", Severity.CRITICAL, sentence, attributes=attributes, marks=(crash.mark,))


def _lost(job: Job) -> Iterator[Diagnostic]:
    graph = job.run.graph
    if graph is None:
        return
    for group in grouped(job.lost.sure, graph)[:_LOST_SHOWN]:
        lost = group.example
        first, second = task_name(lost.first), task_name(lost.second)
        does = "reads" if lost.hazard == "read after write" else "overwrites"
        sentence = (
            f"Task {second} {does} {lost.region}, of tensor {lost.tensor} ({lost.second_mode}, argument "
            f"{lost.second_arg}) that task {first} writes ({lost.first_mode}, argument {lost.first_arg}), and nothing "
            "orders them."
        )
        evidence = Mark(job.graph_mark.source, sentence, job.graph_mark.wall_ns, kind="file")
        attributes = {
            "tensor": str(lost.tensor),
            "first": lost.first_mode,
            "second": lost.second_mode,
            "region": lost.region,
            "hazard": lost.hazard,
            "why": why_of(lost),
            "next": "\n".join(next_of(lost)),
            "count": str(group.count),
        }
        yield said(
            job,
            "missing-edge",
            Severity.ERROR,
            sentence,
            entities=(job.names.task(lost.second), job.names.task(lost.first)),
            attributes=attributes,
            marks=(evidence,),
            detail=f"{first}-{second}",
        )
    if job.run.phase != "completed":
        for raw in job.suspicion.tasks[:8]:
            for partner in graph.flag_partners(raw):
                sentence = (
                    f"Task {task_name(raw)} names a tensor without dependency (NO_DEP) that task {task_name(partner)}, "
                    "which depends on it, names too: if it waits for a flag there, the two wait for each other."
                )
                yield said(
                    job,
                    "flag-cycle",
                    Severity.WARNING,
                    sentence,
                    entities=(job.names.task(raw), job.names.task(partner)),
                    marks=(Mark(job.graph_mark.source, sentence, kind="file"),),
                    detail=f"{task_name(raw)}-{task_name(partner)}",
                )
