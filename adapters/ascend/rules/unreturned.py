"""The scheduler has ended a run, and a kernel has not returned: the simulator's host waits for its core's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.rules.sentences import JobDiagnostics, evidence, limit_words, masked, pid_of
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import duration, since_wall_ns, waited_ns
from livedbg.model import Diagnostic, Severity, Thread, ids
from livedbg.text.wording import sentence_case

__all__ = ["unreturned"]

_SHOWN: Final = 3  # cores that the sentence names


def unreturned(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The cores that the host waits for, if it waits for any."""
    left = job.unresolved("core-unreturned")
    process = state.snapshot.processes.get(job.state.attributes.get("process", ""))
    if not left or process is None or process.exited or job.first("timeout-exit") is not None:
        return
    threads = {int(said.attributes["tid"]): said for said in left}
    waiter = _waiter({ids.thread(process.host, process.pid, tid) for tid in threads}, state)
    if waiter is None:
        return  # the run is being set up, or ends
    waited = waited_ns(waiter, state.snapshot) or 0
    stalled = waited >= state.settings.thread_stall_ns
    many = len(left) > 1
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    names = ", ".join(_core(said, job, state) for said in left[:_SHOWN]) + more
    names = f"The kernels of {len(left)} cores ({names})" if many else sentence_case(names)
    limit = limit_words(job)
    watchdog = f" The scheduler ends a run for a fatal error, and after {limit} without progress." if limit else ""
    yield Finding(
        rule=rule,
        state=VerdictState.STALLED if stalled else VerdictState.UNKNOWN,
        decides=not stalled,
        severity=Severity.CRITICAL if stalled else Severity.WARNING,
        sentence=(
            f"{names} {'have' if many else 'has'} not returned since the scheduler ended the run, {duration(waited)} "
            f"ago or more. The host waits for {'these cores' if many else 'this core'} in "
            f"{waiter.waits_in or 'a join'}.{watchdog}{masked(job)}"
        ),
        roots=tuple(_root(said, job) for said in left),
        entities=(
            *(_root(said, job) for said in left),
            *(ids.thread(process.host, process.pid, tid) for tid in threads),
            waiter.id,
        ),
        evidence=evidence(*left, job.first("runtime-failed")),
        next=(
            f"livedbg stacks {pid_of(job, state.snapshot)}   (the stack of the AICore thread shows the line)",
            "check the kernel for an endless loop, or a wait for a flag or signal that is never set",
        ),
        since_wall_ns=since_wall_ns(waiter, state.snapshot),
    )


def _waiter(threads: set[str], state: RuleInput) -> Thread | None:
    """A thread that waits for one of some threads."""
    names = (waiter for thread in sorted(threads) for waiter in state.graph.waiters_of(thread))
    return next((state.snapshot.threads[name] for name in names if name in state.snapshot.threads), None)


def _core(said: Diagnostic, job: JobDiagnostics, state: RuleInput) -> str:
    """`task r1t2 (func 2) on core 10`, `the kernel on core 10`."""
    core, func = said.attributes["core"], said.attributes.get("func")
    name = state.snapshot.resources.get(f"core:{job.scope}/{core}")
    place = name.name if name is not None else f"core {core}"
    if "task" not in said.attributes:
        return f"the kernel on {place}" if func is None else f"kernel func {func} on {place}"
    task = state.snapshot.tasks.get(_root(said, job))
    kernel = (task.kernel if task is not None else None) or (f"func {func}" if func is not None else "")
    return f"task {task_name(int(said.attributes['task']))}{f' ({kernel})' if kernel else ''} on {place}"


def _root(said: Diagnostic, job: JobDiagnostics) -> str:
    """The task that the core was given; the core, where that is not known."""
    task = said.attributes.get("task")
    prefix = job.task_prefix.removesuffix("r")
    return f"{prefix}{task_name(int(task))}" if task is not None else f"core:{job.scope}/{said.attributes['core']}"
