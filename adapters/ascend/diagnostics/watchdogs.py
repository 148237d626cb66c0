"""Diagnostics of watchdogs: rounds without progress, ended runs and by whom, causes behind CANN's codes.

Codes: `watchdog-fired` (the first to fire, its limit, and the next in line), `limits-ignored` (settings that the
runtime does not take), `cann-code` (a code of CANN's), `operation-ended` (CANN ended the operation for its limit),
`watchdog-armed` (a watchdog will end a live process's run, which limits stops; see livedbg.touch.stop_budget),
`deinit-timeout` (cores that did not answer at the end of a run), and those of a stall.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.codes import cann_code, device_log, named_code, stall_class
from livedbg.adapters.ascend.diagnostics.run import statement
from livedbg.adapters.ascend.facts import FailureFacts, StallFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.stalls import Stall
from livedbg.adapters.ascend.watchdogs import Fired, limit_of, others_after, watchdogs
from livedbg.model import Diagnostic
from livedbg.touch.stop_budget import WatchdogFacts

STARVED_BELOW: Final = 300
"""A scheduler thread that runs turns its idle loop more often than this in a second (measured on the simulator: 1,261
to 40,000 when it ran, 87 when it was stopped)."""


def stall_diagnostics(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the watchdog's last round."""
    counts = job.run.counts
    done = (
        f"{counts.completed} of {counts.total} tasks are done"
        if counts.completed is not None
        else "its line has no counts"
    )
    sub_class = _sub_class(job, stall)
    values = {
        "idle": stall.idle,
        "done": done,
        "sub_class": sub_class,
        "meaning": stall_class(sub_class).meaning,
    }
    entities, code = tuple(job.names.task(raw) for raw in job.suspicion.tasks), "stall-summary"
    marks: tuple[Mark | None, ...] = (stall.mark,)
    if stall.exit:
        code, marks = "timeout-exit", (stall.mark, stall.drained)
    yield statement(job, code, values, entities=entities, facts=_facts(job, stall), marks=marks)
    if stall.exit:
        yield from _doubts(job, stall)
    yield from _core_anomalies(job, stall)


def _facts(job: Job, stall: Stall) -> StallFacts:
    sub_class = _sub_class(job, stall)
    return StallFacts(
        sub_class=sub_class,
        sub_class_by="counts" if sub_class and not stall.sub_class else "",
        code=named_code(100),
        advice=stall_class(sub_class).advice if sub_class else "",
        drained=stall.drained is not None,
        idle_s=job.run.idle_s(stall.mark),
        orch_done=stall.orchestrator_done,
    )


def _sub_class(job: Job, stall: Stall) -> str:
    return stall.sub_class or stall.class_by(job.run.counts)


def _doubts(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Yield reasons why the watchdog may have fired without a stall."""
    hung = job.trouble.unacknowledged or any(core.stuck for core in job.run.cores.values())
    load = job.loads.around(stall.mark.wall_ns)
    if job.starved(stall.idle, STARVED_BELOW) and not hung:
        facts = structs.replace(_facts(job, stall), load=load.words() if load is not None else "")
        yield statement(job, "watchdog-starved", {"idle": stall.idle}, facts=facts, marks=(stall.mark,))
    elif load is not None and load.crowded:
        yield statement(job, "machine-busy", {"load": load.words()})


def _core_anomalies(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Yield cores that have finished, but count as busy for the scheduler."""
    for core, task in sorted(stall.anomalies.items()):
        yield statement(
            job,
            "core-anomaly",
            {"core": core, "task": task_name(task)},
            entities=(job.names.core(core), job.names.task(task)),
            marks=(stall.mark,),
            detail=core,
        )


def time_limits(job: Job) -> Iterator[Diagnostic]:
    """Yield all diagnostics about time limits and CANN; each id once."""
    yield from _armed(job)
    first = job.timeouts.first()
    if first is not None and job.run.phase != "completed":
        yield _fired(job, first)
        if first.key == "op-execute":
            seconds = f"{first.limit(job.environment).seconds:g}"
            yield statement(job, "operation-ended", {"limit": seconds}, marks=(first.mark,))
    if job.timeouts.ignored:
        values = {"which": job.timeouts.ignored}
        yield statement(job, "limits-ignored", values, marks=(job.timeouts.ignored_mark,))
    stuck = sorted(core.number for core in job.run.cores.values() if core.stuck)
    if job.trouble.only_deinit(job.run) and job.run.phase != "completed":
        yield statement(
            job,
            "deinit-timeout",
            {"cores": f"Core {stuck[0]}" if len(stuck) == 1 else f"{len(stuck)} cores"},
            entities=tuple(job.names.core(core) for core in stuck),
            facts=FailureFacts(simulator=job.timeouts.simulator is not False),
            marks=(job.trouble.status_mark,),
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
    values = {"name": dog.name, "watches": dog.watches, "how_long": how_long, "after": after}
    return statement(job, "watchdog-fired", values, marks=(first.mark,))


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
        waited=_waited(job),
        at_once=job.at_once,
    )
    yield statement(job, "cann-code", structs.asdict(code), facts=facts, marks=(trouble.cann_mark,))


def _waited(job: Job) -> str:
    """Return `2 s for the stream of device 3`, if the host's limit fired and no line shows the device's state."""
    first = job.timeouts.first()
    if first is None or first.key != "stream-sync" or len(job.timeouts.fired) > 1 or job.run.tasks:
        return ""
    device = f" of device {job.trouble.device}" if job.trouble.device is not None else ""
    return f"{first.limit(job.environment).seconds:g} s for the stream{device}"


def _armed(job: Job) -> Iterator[Diagnostic]:
    """Yield the watchdog of a live process: its scheduler ends the run after too long without progress."""
    run = job.run
    stall = job.stalls.stall
    over = job.trouble.crash is not None or job.trouble.fatal is not None or (stall is not None and stall.exit)
    if job.environment is None or over or run.phase not in {"starting", "running"} or run.progress_wall_ns is None:
        return
    limit = limit_of("scheduler", job.environment)
    by = limit.by if limit.sure else "the default"
    yield statement(
        job,
        "watchdog-armed",
        {"limit": f"{limit.seconds:g}", "by": by},
        entities=(job.process,),
        facts=WatchdogFacts(
            limit_s=limit.seconds, since_wall_ns=run.progress_wall_ns, watchdog="the scheduler's watchdog", by=by
        ),
    )
