"""What watchdogs report: a round without progress, the end of a run and who ended it, and what CANN's codes hide.

Codes: `watchdog-fired` (the one that fired first, its limit, which would have come next), `limits-ignored` (settings
that the runtime does not take), `cann-code` (a code of CANN's), `operation-ended` (CANN ended the operation for its
limit), `watchdog-armed` (a watchdog will end a live process's run: what a stop has to mind; see
livedbg.touch.stop_budget), `deinit-timeout` (cores that did not answer at the end of a run), and those of a stall.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.codes import cann_code, device_log, named_code, stall_class
from livedbg.adapters.ascend.diagnostics.run import statement
from livedbg.adapters.ascend.facts import FailureFacts, StallFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.stalls import Stall
from livedbg.adapters.ascend.watchdogs import Fired, limit_of, others_after, watchdogs
from livedbg.model import Diagnostic, Severity
from livedbg.text.wording import sentence_case

__all__ = ["STARVED_BELOW", "stall_diagnostics", "time_limits"]

STARVED_BELOW: Final = 300
"""A scheduler thread that runs turns its idle loop more often than this in a second (measured on the simulator: 1,261
to 40,000 when it ran, 87 when it was stopped)."""


def stall_diagnostics(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """The watchdog's last round."""
    counts = job.run.counts
    done = (
        f"{counts.completed} of {counts.total} tasks are done"
        if counts.completed is not None
        else "its line has no counts"
    )
    if stall.exit:
        yield _watchdog_exit(job, stall, done)
        yield from _doubts(job, stall)
    else:
        yield _no_progress(job, stall, done)
    yield from _core_anomalies(job, stall)


def _facts(job: Job, stall: Stall) -> StallFacts:
    sub_class = _sub_class(job, stall)
    return StallFacts(
        sub_class=sub_class,
        sub_class_by="counts" if sub_class and not stall.sub_class else "",
        code=named_code(100),
        advice=stall_class(sub_class).advice if sub_class else "",
        drained=stall.drained is not None,
        orch_done=stall.orchestrator_done,
    )


def _sub_class(job: Job, stall: Stall) -> str:
    return stall.sub_class or stall.class_by(job.run.counts)


def _suspects(job: Job) -> tuple[str, ...]:
    return tuple(job.names.task(raw) for raw in job.suspicion.tasks)


def _no_progress(job: Job, stall: Stall, done: str) -> Diagnostic:
    return statement(
        job,
        "stall-summary",
        Severity.WARNING,
        f"The scheduler reports no progress for {stall.idle} idle iterations; {done}.",
        entities=_suspects(job),
        facts=_facts(job, stall),
        marks=(stall.mark,),
    )


def _watchdog_exit(job: Job, stall: Stall, done: str) -> Diagnostic:
    sub_class = _sub_class(job, stall)
    why = f" ({sub_class}: {stall_class(sub_class).meaning})" if sub_class else ""
    return statement(
        job,
        "timeout-exit",
        Severity.ERROR,
        f"The scheduler's watchdog ended the run{why}; {done}.",
        entities=_suspects(job),
        facts=_facts(job, stall),
        marks=(stall.mark, stall.drained),
    )


def _doubts(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Why the watchdog may have fired without a stall."""
    hung = job.trouble.unacknowledged or any(core.stuck for core in job.run.cores.values())
    load = job.loads.around(stall.mark.wall_ns)
    if job.starved(stall.idle, STARVED_BELOW) and not hung:
        sentence = (
            f"The watchdog fired after only {stall.idle} idle iterations: the scheduler was paused or got no "
            "processor time, so this time-out does not show a stall."
        )
        facts = structs.replace(_facts(job, stall), load=load.words() if load is not None else "")
        yield statement(job, "watchdog-starved", Severity.WARNING, sentence, facts=facts, marks=(stall.mark,))
    elif load is not None and load.crowded:
        sentence = f"The machine was busy when the watchdog fired: {load.words()}."
        yield statement(job, "machine-busy", Severity.INFO, sentence)


def _core_anomalies(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Cores that have finished, while the scheduler counts them as busy."""
    for core, task in sorted(stall.anomalies.items()):
        sentence = (
            f"Core {core} has finished task {task_name(task)} (its register says fin), but the scheduler has not "
            "collected it."
        )
        yield statement(
            job,
            "core-anomaly",
            Severity.ERROR,
            sentence,
            entities=(job.names.core(core), job.names.task(task)),
            marks=(stall.mark,),
            detail=core,
        )


def time_limits(job: Job) -> Iterator[Diagnostic]:
    """All diagnostics about time limits and CANN; each id once."""
    yield from _armed(job)
    first = job.timeouts.first()
    if first is not None and job.run.phase != "completed":
        yield _fired(job, first)
        if first.key == "op-execute":
            limit = first.limit(job.environment)
            sentence = (
                f"CANN ended the operation after its limit of {limit.seconds:g} s: it was slow or blocked. "
                "That alone proves no deadlock."
            )
            yield statement(job, "operation-ended", Severity.ERROR, sentence, marks=(first.mark,))
    if job.timeouts.ignored:
        sentence = f"The runtime ignores a time limit that is set: {job.timeouts.ignored}."
        yield statement(job, "limits-ignored", Severity.WARNING, sentence, marks=(job.timeouts.ignored_mark,))
    stuck = sorted(core.number for core in job.run.cores.values() if core.stuck)
    if job.trouble.only_deinit(job.run) and job.run.phase != "completed":
        cores = f"Core {stuck[0]}" if len(stuck) == 1 else f"{len(stuck)} cores"
        sentence = (
            f"{cores} did not answer at the end of the run in time (10 s on the simulator, 1 s on a device), and the "
            "run failed with code -1. The log shows no other failure."
        )
        marks = (job.trouble.status_mark,)
        yield statement(
            job,
            "deinit-timeout",
            Severity.ERROR,
            sentence,
            entities=tuple(job.names.core(core) for core in stuck),
            facts=FailureFacts(simulator=job.timeouts.simulator is not False),
            marks=marks,
        )
    yield from _cann(job)


def _fired(job: Job, first: Fired) -> Diagnostic:
    dog = watchdogs()[first.key]
    limit = first.limit(job.environment)
    how_long = f"{limit.seconds:g} s ({limit.by})"
    if not limit.sure and dog.variable:
        how_long = f"the limit in SIMPLER_{dog.variable} ({limit.seconds:g} s by default)"
    later = [watchdogs()[f.key].name for f in job.timeouts.fired if f.key != first.key]
    after = (
        f"After it, {' and '.join(later)} fired."
        if later
        else others_after(first.key, limit.seconds, job.environment, job.timeouts.simulator)
    )
    sentence = f"{sentence_case(dog.name)} fired first: {dog.watches} for {how_long}. {after}".strip()
    return statement(job, "watchdog-fired", Severity.INFO, sentence, marks=(first.mark,))


def _cann(job: Job) -> Iterator[Diagnostic]:
    trouble = job.trouble
    code = cann_code(trouble.cann)
    if code is None or job.run.phase == "completed":
        return
    tail = job.process.rpartition("/")[2]
    pid = int(tail) if tail.isdecimal() else None
    facts = FailureFacts(
        mask=code.mask,
        advice=code.advice,
        device_log=device_log(job.environment or {}, pid, trouble.device),
        fault_kernel=trouble.fault_kernel,
    )
    sentence = f"CANN returned {code.number} ({code.name}): {code.meaning}."
    yield statement(job, "cann-code", Severity.ERROR, sentence, facts=facts, marks=(trouble.cann_mark,))


def _armed(job: Job) -> Iterator[Diagnostic]:
    """A live process's run is watched: its scheduler ends it after too long without progress."""
    run = job.run
    stall = job.stalls.stall
    over = job.trouble.crash is not None or job.trouble.fatal is not None or (stall is not None and stall.exit)
    if job.environment is None or over or run.phase not in {"starting", "running"} or run.progress_wall_ns is None:
        return
    limit = limit_of("scheduler", job.environment)
    by = limit.by if limit.sure else "the default"
    sentence = f"The scheduler's watchdog ends the run after {limit.seconds:g} s without progress ({by})."
    yield statement(
        job,
        "watchdog-armed",
        Severity.DEBUG,
        sentence,
        entities=(job.process,),
        attributes={
            "limit_s": f"{limit.seconds:g}",
            "since_wall_ns": str(run.progress_wall_ns),
            "watchdog": "the scheduler's watchdog",
            "by": by,
        },
    )
