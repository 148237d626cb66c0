"""Diagnostics for failures: full rings, abandoned waits, fatal errors, return codes, crashes; stalls and watchdogs.

Codes of the latter: `watchdog-fired` (the first to fire, its limit, and the next in line), `limits-ignored` (settings
that the runtime does not take), `cann-code` (a code of CANN's), `operation-ended` (CANN ended the operation for its
limit), `watchdog-armed` (a watchdog will end a live process's run, which limits stops; see livedbg.touch.stop_budget),
`deinit-timeout` (cores that did not answer at the end of a run), and those of a stall.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.codes import (
    ErrorCode,
    cann_code,
    device_log,
    error_code,
    named_code,
    stall_class,
    unexplained,
    whole_graph,
)
from livedbg.adapters.ascend.diagnostics.run import statement
from livedbg.adapters.ascend.facts import FailureFacts, RingFacts, StallFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.messages import Mark
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.stalls import Stall
from livedbg.adapters.ascend.trouble import Fatal, RingFull, TensorWait
from livedbg.adapters.ascend.watchdogs import Fired, limit_of, others_after, watchdogs
from livedbg.model import Diagnostic
from livedbg.touch.stop_budget import WatchdogFacts


def failures(job: Job) -> Iterator[Diagnostic]:
    """Yield all failures of the run, and the signal or exception that ended the process."""
    trouble = job.trouble
    if trouble.ring is not None:
        yield _ring_full(job, trouble.ring)
    if trouble.tensor is not None:
        yield _tensor_wait(job, trouble.tensor)
    if trouble.fatal is not None:
        yield _fatal(job, trouble.fatal)
    if trouble.status and not trouble.only_deinit(job.run):
        yield _run_failed(job, trouble.status)
    if trouble.crash is not None:
        values = {"what": trouble.crash.what, "message": trouble.crash.message}
        facts = FailureFacts(thrown="C++" if "::" in trouble.crash.what else "")
        yield statement(job, "terminate", values, facts=facts, marks=(trouble.crash.mark,))


def _ring_full(job: Job, ring: RingFull) -> Diagnostic:
    fatal = job.trouble.fatal
    head = ""
    entities: tuple[str, ...] = (job.names.orchestrator,)
    if ring.ring is not None:
        entities += (job.names.ring(ring.ring),)
    if ring.head is not None:
        entities += (job.names.task(ring.head),)
        head = task_name(ring.head) if ring.head_state == 0 else ""
    full = ring.resource.rstrip("!")
    facts = RingFacts(
        full=full,
        what=ring.what.value,
        name=ring.name,
        level=ring.level,
        size=f"{ring.size:,}" if ring.size is not None else "",
        wanted=f"{ring.wanted:,}" if ring.wanted is not None else "",
        never_fits=ring.never_fits,
        scopes=_scopes(job, ring),
        by_scope=ring.by_scope,
        host_built=ring.host_built,
        code=named_code(fatal.code if fatal is not None else 0),
    )
    values = {"full": full, "level": ring.level, "head": head}
    return statement(job, "ring-full", values, entities=entities, facts=facts, marks=(ring.mark,))


def _scopes(job: Job, ring: RingFull) -> str:
    """Return sentences on the full resource from scope_stats.jsonl."""
    stats = job.scopes
    if stats is None:
        return ""
    words = []
    inside = [one for one in stats.open if ring.ring in (None, one.ring) and one.depth]
    if inside:
        words.append(f"The scope at {inside[-1].site} (depth {inside[-1].depth}) has begun and not ended.")
    peak = stats.peak(ring.what, ring.ring)
    if peak is not None:
        least = "at least " if stats.dropped else ""
        words.append(
            f"Of the scopes that ended, the one at {peak.site} held the most: {least}{peak.used:,} of {peak.size:,}."
        )
    return " ".join(words)


def _tensor_wait(job: Job, tensor: TensorWait) -> Diagnostic:
    return statement(
        job,
        "tensor-wait-timeout",
        {"who": "the consumers of task" if tensor.consumers else "task", "task": task_name(tensor.task)},
        entities=(job.names.orchestrator, job.names.task(tensor.task)),
        facts=FailureFacts(code=named_code(8)),
        marks=(tensor.mark,),
    )


def _fatal(job: Job, fatal: Fatal) -> Diagnostic:
    code = _error_code(job, fatal.code or _latched_code(job))
    values = {**structs.asdict(code), "who": fatal.func or "The runtime"}
    facts = FailureFacts(
        error_code=code.number, message=fatal.text, hint=job.trouble.hint, advice=code.advice, blame=code.blame
    )
    return statement(job, "fatal", values, facts=facts, marks=(fatal.mark,))


def _run_failed(job: Job, status: int) -> Diagnostic:
    trouble = job.trouble
    code = _error_code(job, _latched_code(job) or status)
    sentence = f"The run failed with code {status} ({code.name}): {code.meaning}."
    if status == -1 and not _latched_code(job) and trouble.fatal is None:
        code = error_code(0)
        sentence = unexplained(trouble.call)
    facts = FailureFacts(
        error_code=code.number, call=trouble.call, hint=trouble.hint, advice=code.advice, blame=code.blame
    )
    return statement(job, "runtime-failed", {"said": sentence}, facts=facts, marks=(trouble.status_mark,))


def _error_code(job: Job, number: int) -> ErrorCode:
    code, ring = error_code(number), job.trouble.ring
    return whole_graph(code) if ring is not None and ring.host_built else code


def _latched_code(job: Job) -> int:
    return job.trouble.orch_code or job.trouble.sched_code


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
        core=stall.stuck_core if stall.stuck_task is None else None,
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
    after = f"After it, {' and '.join(later)} fired." if later else ""
    if first.turns:
        how_long = f"{first.turns:,} idle turns (MAX_IDLE_ITERATIONS, compiled in)"
    elif not later:
        after = others_after(first.key, limit.seconds, job.environment, job.timeouts.simulator)
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
        call=trouble.call,
        who=trouble.who,
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
