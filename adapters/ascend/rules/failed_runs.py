"""How an Ascend run failed: crash, error code, false time-out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.ascend.facts import FailureFacts, RingFacts, StallFacts, facts
from livedbg.adapters.ascend.rules.jobs import (
    LINES_BEFORE,
    JobDiagnostics,
    advice_of,
    code_of,
    ended_by,
    evidence,
    name_of,
    names_of,
    where_of,
)
from livedbg.adapters.ascend.rules.rings import why_full
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Diagnostic, Severity, Task, TaskState

__all__ = ["cann", "crash", "run_failed", "slow", "starved"]

_CATCH: Final = "livedbg launch --catch std::exception -- COMMAND   (records the exception and its stack)"
_CATCH_SIGNALS: Final = "livedbg launch --catch signals -- COMMAND   (records the stack at the signal)"

_TELLS_LOAD: Final = "to measure the load, next time: livedbg record TARGET -o FILE, or sar -q of sysstat"


def crash(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The process of an Ascend run ended by a signal or an uncaught C++ exception (log, or exit status).

    The task that was running then is named as the likely place, which is inferred.
    """
    crash = job.first("terminate")
    if crash is None:
        return
    thrown = facts(crash, FailureFacts).thrown
    running = [] if job.completed else [t for t in job.roots(state.snapshot) if t.state is TaskState.RUNNING]
    place = ""
    if len(running) == 1:
        place = f" Task {name_of(running[0])} was running {where_of(running[0], state.snapshot)} at that time."
    elif not running and job.run.orchestrator == "submitting" and thrown:
        place = (
            " The orchestrator was still submitting: the orchestration code (aicpu_orchestration_entry) is the "
            "likely place."
        )
    yield Finding(
        rule=rule,
        state=VerdictState.CRASHED,
        severity=Severity.CRITICAL,
        sentence=f"{crash.sentence}{place}{_fault(job)}{job.masked()}",
        entities=tuple(task.id for task in running) if len(running) == 1 else (),
        evidence=evidence(crash, *running, job.first("cann-code")),
        next=(
            _CATCH if thrown else _CATCH_SIGNALS,
            LINES_BEFORE,
        ),
        inferred=bool(place),
        since_wall_ns=crash.at_wall_ns,
    )


def _fault(job: JobDiagnostics) -> str:
    """The kernel that CANN's report of a fault names."""
    code = job.known("cann-code", FailureFacts)
    if code is None or not code.fault_kernel:
        return ""
    return (
        f" CANN's report names kernel {code.fault_kernel}. If its binSize is that of the runtime's aicore_kernel.o, "
        "the fault is in the kernel that it called."
    )


def run_failed(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """An Ascend run ended with an error code that no stall explains.

    The finding has its meaning and the runtime's hint.
    """
    failed, fatal = job.first("runtime-failed"), job.first("fatal")
    if (failed is None and fatal is None) or job.completed or any(_explained(job, state)):
        return
    main, ring = fatal or failed, job.first("ring-full")
    assert main is not None
    known = facts(main, FailureFacts)
    words = f" Its message: “{known.message}”." if known.message else ""
    whose = f" The usual cause is in: {known.blame}." if known.blame else ""
    advices = (facts(said, FailureFacts) for said in (main, failed) if said is not None)
    steps = dict.fromkeys(step for advice in advices for step in advice_of(advice))
    if fatal is None and known.call == "prepare_native_run" and not known.error_code:
        steps = dict.fromkeys((_CATCH, *steps))
    sentence = main.sentence
    if ring is not None and not facts(ring, RingFacts).host_built:
        words, todo = why_full(facts(ring, RingFacts))
        sentence = f"The run failed{code_of(ring)}: the orchestrator could not submit another task."
        whose, steps = "", dict.fromkeys(todo)
    yield Finding(
        rule=rule,
        state=VerdictState.CRASHED,
        severity=Severity.CRITICAL,
        sentence=sentence + words + whose + job.fired() + job.masked(),
        entities=(job.orchestrator,) if 0 < known.error_code < 100 else (),
        evidence=evidence(fatal, failed, job.first("cann-code")),
        next=tuple(steps) or (LINES_BEFORE,),
        since_wall_ns=main.at_wall_ns,
    )


def _explained(job: JobDiagnostics, state: RuleInput) -> Iterator[bool]:
    """Whether another rule already says why the run failed: of what is full, where a scope or a task holds it."""
    ring = job.known("ring-full", RingFacts)
    if ring is not None and not ring.host_built and not ring.never_fits:
        yield ring.by_scope or bool(job.roots(state.snapshot))
    yield job.latched_timeout() is not None and bool(job.state.entities)
    for code in ("timeout-exit", "tensor-wait-timeout", "terminate", "watchdog-starved"):
        yield job.first(code) is not None


def cann(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The logs show only an error code of CANN (507018, 507046, …) or a time-out below the runtime.

    Most of these codes mask the cause; the finding names the log that has it.
    """
    code, ended, deinit = job.first("cann-code"), job.first("operation-ended"), job.first("deinit-timeout")
    main = code or ended or deinit
    if main is None or job.completed or any(_explained(job, state)) or any(map(job.first, ("fatal", "runtime-failed"))):
        return
    steps: list[str] = []
    words = ""
    known = facts(main, FailureFacts)
    if deinit is not None and main is deinit:
        if known.simulator:
            words = " The cores of the simulator are threads: this machine probably has too few CPUs for them."
        steps = ["run fewer jobs at a time (--max-parallel 2)", "check whether the kernel on that core ends"]
    elif code is not None and known.mask:
        words = " That code masks the cause: it reports only that something failed. The logs have no cause."
        steps = [
            f"read the device log as well: livedbg report --logs DIR, with the directory of {known.device_log}",
            "set ASCEND_PROCESS_LOG_PATH to an empty directory and rerun",
            "find the first failure on that device in the log: all later calls fail after it",
        ]
    elif code is not None:
        steps = [step for step in (known.advice, known.device_log) if step]
    ended_words = f" {ended.sentence}" if ended is not None and main is not ended else ""
    if ended is not None:
        steps.append(
            "raise SIMPLER_OP_EXECUTE_TIMEOUT_US and SIMPLER_STREAM_SYNC_TIMEOUT_MS to test if it is only slow"
        )
    yield Finding(
        rule=rule,
        state=VerdictState.CRASHED,
        severity=Severity.CRITICAL,
        sentence=f"{main.sentence}{words}{ended_words}{job.fired()}",
        entities=main.entities,
        evidence=evidence(code, ended, deinit),
        next=tuple(steps),
        since_wall_ns=main.at_wall_ns,
    )


def starved(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The scheduler's watchdog fired, but its thread had hardly run: a debugger stopped it, or it got no processor
    time. Such a time-out is no evidence of a stall.
    """
    starved = job.first("watchdog-starved")
    if starved is None or job.completed:
        return
    load = facts(starved, StallFacts).load
    words = f"At that time: {load}." if load else "The machine's load at that time is not known."
    yield Finding(
        rule=rule,
        state=VerdictState.CRASHED,
        severity=Severity.ERROR,
        sentence=f"{starved.sentence} {words}{job.fired()}",
        evidence=evidence(starved, job.first("timeout-exit")),
        next=(
            "rerun without a debugger that stops it, or with fewer jobs on the machine (--max-parallel 2)",
            "raise SIMPLER_SCHEDULER_TIMEOUT_MS (read once, when the worker starts)",
            *(() if load else (_TELLS_LOAD,)),
        ),
        since_wall_ns=starved.at_wall_ns,
    )


def slow(rule: str, watchdog: Diagnostic, tasks: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> Finding:
    """The watchdog ended a run whose kernels returned afterwards: they were slow, not stuck.

    Args:
        rule: name of the rule.
        watchdog: the watchdog's diagnostic.
        tasks: the tasks that were running.
    """
    one = len(tasks) == 1
    where = f" {where_of(tasks[0], state.snapshot)}" if one else ""
    subject = "Task" if one else "Tasks"
    then = (
        "Its kernel has returned since, so it was slow"
        if one
        else "Their kernels have returned since, so they were slow"
    )
    return Finding(
        rule=rule,
        state=VerdictState.CRASHED,
        roots=tuple(task.id for task in tasks),
        severity=Severity.ERROR,
        sentence=(
            f"{subject} {names_of(tasks)} still ran{where} when the scheduler's watchdog ended the run. {then}, "
            f"not stuck.{job.progress()}{ended_by(watchdog)}{job.fired()}"
        ),
        entities=tuple(task.id for task in tasks),
        evidence=evidence(watchdog, *tasks, job.first("runtime-failed")),
        next=(
            "raise SIMPLER_SCHEDULER_TIMEOUT_MS (read once, when the worker starts) above the kernel's run time",
            "livedbg launch --recipe ascend-patience -- COMMAND   (tests it with a limit of 5 min)",
            f"or find out why {tasks[0].kernel or 'the kernel'} is slow: a long loop, or a wait for a late task",
        ),
        inferred=True,
        since_wall_ns=watchdog.at_wall_ns,
    )
