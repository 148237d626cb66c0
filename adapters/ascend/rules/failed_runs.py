"""Rules for failed Ascend runs: crash, error code, false time-out, an orchestrator that waits for its own scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from livedbg.adapters.ascend.facts import FailureFacts, RingFacts, StallFacts
from livedbg.adapters.ascend.reports import failed_tests
from livedbg.adapters.ascend.rules.jobs import (
    JobDiagnostics,
    code_of,
    ended_by,
    evidence,
    flag,
    name_of,
    names_of,
    where_of,
    written,
)
from livedbg.adapters.ascend.trouble import VARIABLES, Full
from livedbg.analysis.diagnosis import Finding
from livedbg.model import CauseClass, Diagnostic, Task, TaskState
from livedbg.model.facts import read_facts
from livedbg.text.wording import sentence_case


def scope_deadlock(job: JobDiagnostics) -> Iterator[Finding]:
    """The orchestrator waits for a slot of a ring, or for memory of its heap, that only the end of its own open scope
    can free.
    """
    full, ring = job.first("ring-full"), job.known("ring-full", RingFacts)
    if full is None or ring is None or job.completed or not ring.by_scope or ring.never_fits:
        return
    yield written(
        "scope-deadlock",
        job,
        ring_values(ring),
        roots=tuple(entity for entity in full.entities if not entity.startswith(job.task_prefix)),
        entities=full.entities,
        evidence=evidence(full),
        since_wall_ns=full.at_wall_ns,
    )


def ring_values(full: RingFacts) -> Mapping[str, str]:
    """Return the template values of a full resource.

    `variable` sizes it, with its value if the log has it: `PTO2_RING_HEAP (now 262,144 bytes)`; `setting` is the one in
    code that it does not override (simpler CallConfig.runtime_env, pypto RunConfig); `which_scope`: a recipe can show
    which scope fills it.
    """
    variable, heap, pool = VARIABLES[Full(full.what)], full.what == Full.HEAP.value, full.what == Full.POOL.value
    unit, setting = "bytes" if heap else "entries", variable.removeprefix("PTO2_").lower()
    holders = ["a task that does not complete", "an open scope", *(["the producers of one task alone"] if pool else [])]
    return {
        "name": full.name,
        "the_name": sentence_case(full.name),
        "level": full.level,
        "unit": unit,
        "bytes": flag(heap),
        "size": full.size,
        "wanted": full.wanted,
        "asked": f"{full.wanted} {unit} of {full.name}, which has {full.size} in all"
        if full.wanted
        else f"more of {full.name} than its {full.size} {unit}, all of which are free",
        "variable": f"{variable} (now {full.size} {unit})" if full.size else variable,
        "setting": f", or {setting} where the program's own configuration sets it" * setting.startswith("ring_"),
        "fan_in": flag(pool),
        "holders": f"{', '.join(holders[:-1])} or {holders[-1]}",
        "scopes": scopes_of(full),
        "which_scope": flag(not full.scopes and not full.host_built),
    }


def scopes_of(full: RingFacts) -> str:
    """Return ` The scope at orchestration.cpp:77 (depth 1) has begun and not ended. …`, if scope_stats.jsonl has it."""
    return f" {full.scopes}" if full.scopes else ""


def crash(job: JobDiagnostics) -> Iterator[Finding]:
    """The process of an Ascend run ended by a signal or an uncaught C++ exception (log, or exit status).

    The task that was running then is named as the likely place, which is inferred.
    """
    crash = job.first("terminate")
    if crash is None:
        return
    thrown = read_facts(crash, FailureFacts).thrown
    running = [] if job.completed else [t for t in job.roots if t.state is TaskState.RUNNING]
    place = ""
    if len(running) == 1:
        place = f"Task {name_of(running[0])} was running {where_of(running[0], job)} at that time."
    elif not running and job.run.orchestrator == "submitting" and thrown:
        place = (
            "The orchestrator was still submitting: the orchestration code (aicpu_orchestration_entry) is the "
            "likely place."
        )
    code = job.known("cann-code", FailureFacts) or FailureFacts()
    yield written(
        "crash",
        job,
        {"said": crash.sentence, "place": place, "fault_kernel": code.fault_kernel, "thrown": thrown},
        entities=tuple(task.id for task in running) if len(running) == 1 else (),
        evidence=evidence(crash, *running, job.first("cann-code")),
        inferred=bool(place),
        since_wall_ns=crash.at_wall_ns,
    )


def run_failed(job: JobDiagnostics) -> Iterator[Finding]:
    """An Ascend run ended with an error code that no stall explains.

    The finding has its meaning and the runtime's hint.
    """
    failed, fatal = job.first("runtime-failed"), job.first("fatal")
    main = fatal or failed
    if main is None or job.completed or any(_explained(job)):
        return
    known, other = read_facts(main, FailureFacts), read_facts(failed or main, FailureFacts)
    full, ring = job.first("ring-full"), job.known("ring-full", RingFacts)
    name = "run-failed"
    values: Mapping[str, str] = {
        "said": main.sentence,
        "message": known.message,
        "blame": known.blame,
        "advice": known.advice,
        "hint": known.hint,
        "other_advice": other.advice,
        "other_hint": other.hint,
        "in_prepare": flag(fatal is None and known.call == "prepare_native_run" and not known.error_code),
    }
    if full is not None and ring is not None and not ring.host_built:
        name = "run-failed-never-fits" if ring.never_fits else "run-failed-full"
        values = {**ring_values(ring), "code": code_of(full)}
    yield written(
        name,
        job,
        values,
        entities=(job.orchestrator,) if 0 < known.error_code < 100 else (),
        evidence=evidence(fatal, failed, job.first("cann-code")),
        since_wall_ns=main.at_wall_ns,
    )


def _explained(job: JobDiagnostics) -> Iterator[bool]:
    """Yield whether other rules explain the failure, such as a scope or a task that holds a full resource."""
    ring = job.known("ring-full", RingFacts)
    if ring is not None and not ring.host_built and not ring.never_fits:
        yield ring.by_scope or bool(job.roots)
    yield job.latched_timeout() is not None and bool(job.said.entities)
    for code in ("timeout-exit", "tensor-wait-timeout", "terminate", "watchdog-starved"):
        yield job.first(code) is not None


def cann(job: JobDiagnostics) -> Iterator[Finding]:
    """The logs show only an error code of CANN (507018, 507046, …) or a time-out below the runtime.

    Most of these codes mask the cause; the finding names the log that has it.
    """
    code, ended, deinit = job.first("cann-code"), job.first("operation-ended"), job.first("deinit-timeout")
    main = code or ended or deinit
    if main is None or job.completed or any(_explained(job)) or any(map(job.first, ("fatal", "runtime-failed"))):
        return
    known, words, test = read_facts(main, FailureFacts), "", _failed_test(main, job)
    if known.waited:
        yield _host_limit(main, known, job)
        return
    if main is deinit and known.simulator:
        words = " The cores of the simulator are threads: this machine probably has too few CPUs for them."
    elif known.mask:
        words = " That code masks the cause: it reports only that something failed. The logs have no cause."
    yield written(
        "cann",
        job,
        {
            "test": test,
            "who": known.who if test else sentence_case(known.who),
            "call": known.call if known.who else "",
            "said": main.sentence,
            "words": words,
            "ended": ended.sentence if ended is not None and main is not ended else "",
            "deinit": flag(main is deinit),
            "mask": flag(known.mask),
            "device_log": known.device_log,
            "advice": known.advice,
            "limited": flag(ended),
        },
        entities=main.entities,
        evidence=evidence(code, ended, deinit),
        since_wall_ns=main.at_wall_ns,
        cause=CauseClass.PEER if known.mask else None,  # any other source says more, a device's log above all
    )


def _host_limit(main: Diagnostic, known: FailureFacts, job: JobDiagnostics) -> Finding:
    """Return the finding if only the host's time limit fired: the device's state is not known."""
    test = _failed_test(main, job)
    values = {
        "waited": known.waited,
        "only": f"Test {test} failed: only" if test else "Only",
        "at_once": str(known.at_once) if known.at_once > 1 else "",
        "returned": main.sentence,
        "device_log": known.device_log,
    }
    since_ns, proofs = main.at_wall_ns, evidence(main, job.first("watchdog-fired"))
    return written("host-limit", job, values, evidence=proofs, since_wall_ns=since_ns, cause=CauseClass.PEER)


def _failed_test(main: Diagnostic, job: JobDiagnostics) -> str:
    return next(failed_tests([proof.log or "" for proof in main.evidence], job.snapshot), "")


def starved(job: JobDiagnostics) -> Iterator[Finding]:
    """The scheduler's watchdog fired, but its thread had hardly run: a debugger stopped it, or it got no processor
    time. Such a time-out is no evidence of a stall.
    """
    starved = job.first("watchdog-starved")
    if starved is None or job.completed:
        return
    load = read_facts(starved, StallFacts).load
    words = f"At that time: {load}." if load else "The machine's load at that time is not known."
    values = {"said": starved.sentence, "load": words, "known_load": load}
    proofs = evidence(starved, job.first("timeout-exit"))
    yield written("starved", job, values, evidence=proofs, since_wall_ns=starved.at_wall_ns)


def slow(watchdog: Diagnostic, tasks: Sequence[Task], job: JobDiagnostics) -> Finding:
    """Return the finding for running kernels that returned after the watchdog ended the run: slow, not stuck."""
    one, many = "Its kernel has returned since, so it was slow", "Their kernels have returned since, so they were slow"
    values = {
        "who": f"{'Task' if len(tasks) == 1 else 'Tasks'} {names_of(tasks)}",
        "where": f" {where_of(tasks[0], job)}" if len(tasks) == 1 else "",
        "then": one if len(tasks) == 1 else many,
        "ended_by": ended_by(watchdog),
        "kernel": tasks[0].kernel or "the kernel",
    }
    ids = tuple(task.id for task in tasks)
    proofs = evidence(watchdog, *tasks, job.first("runtime-failed"))
    since_ns = watchdog.at_wall_ns
    return written("slow", job, values, roots=ids, entities=ids, evidence=proofs, since_wall_ns=since_ns)
