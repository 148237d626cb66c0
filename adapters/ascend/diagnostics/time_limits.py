"""Which watchdog ended a job, and what CANN's codes hide, as diagnostics.

Codes: `watchdog-fired` (the one that fired first, its limit, which would have come next), `limits-ignored` (settings
that the runtime does not take), `cann-code` (a code of CANN's; `mask=yes` where it only says that something failed),
`operation-ended` (CANN ended the operation for its limit), `watchdog-armed` (a watchdog will end a live process's run:
what a stop has to mind; see livedbg.touch.stop_budget), `deinit-timeout` (cores that did not answer at the end of
a run).
"""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.ascend.cann import cann_code, device_log
from livedbg.adapters.ascend.diagnostics.statement import statement
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.timeouts import Fired
from livedbg.adapters.ascend.watchdogs import WATCHDOGS, limit_of, others_after
from livedbg.model import Diagnostic, Severity

__all__ = ["time_limits"]


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
            attributes={"simulator": "no" if job.timeouts.simulator is False else "yes"},
            marks=marks,
        )
    yield from _cann(job)


def _fired(job: Job, first: Fired) -> Diagnostic:
    dog = WATCHDOGS[first.key]
    limit = first.limit(job.environment)
    by, how_long = limit.by, f"{limit.seconds:g} s ({limit.by})"
    if not limit.sure and dog.variable:
        by = f"the default of SIMPLER_{dog.variable}"
        how_long = f"the limit in SIMPLER_{dog.variable} ({limit.seconds:g} s by default)"
    later = [WATCHDOGS[f.key].name for f in job.timeouts.fired if f.key != first.key]
    after = (
        f"After it, {' and '.join(later)} fired."
        if later
        else others_after(first.key, limit.seconds, job.environment, job.timeouts.simulator)
    )
    sentence = f"{dog.name[0].upper()}{dog.name[1:]} fired first: {dog.watches} for {how_long}."
    return statement(
        job,
        "watchdog-fired",
        Severity.INFO,
        f"{sentence} {after}".strip(),
        attributes={"watchdog": first.key, "limit_s": f"{limit.seconds:g}", "by": by},
        marks=(first.mark,),
    )


def _cann(job: Job) -> Iterator[Diagnostic]:
    trouble = job.trouble
    code = cann_code(trouble.cann)
    if code is None or job.run.phase == "completed":
        return
    where = device_log(job.environment or {}, _pid(job), trouble.device)
    sentence = f"CANN returned {code.number} ({code.name}): {code.meaning}."
    yield statement(
        job,
        "cann-code",
        Severity.ERROR,
        sentence,
        attributes={
            "number": str(code.number),
            "mask": "yes" if code.mask else "no",
            "advice": code.advice,
            "device_log": where,
            "fault_kernel": trouble.fault_kernel,
        },
        marks=(trouble.cann_mark,),
    )


def _pid(job: Job) -> int | None:
    tail = job.process.rpartition("/")[2]
    return int(tail) if tail.isdecimal() else None


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
