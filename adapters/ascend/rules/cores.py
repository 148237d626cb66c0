"""Rules for cores that a run waits for: their kernels have not returned, or were not collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.facts import CoreFacts
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, evidence
from livedbg.adapters.ascend.rules.words import written
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.words import duration, since_wall_ns, waited_ns
from livedbg.model import Severity, Thread, ids
from livedbg.model.facts import read_facts
from livedbg.text.wording import sentence_case

_SHOWN: Final = 3  # cores that the sentence names


def unreturned(job: JobDiagnostics) -> Iterator[Finding]:
    """The scheduler has ended the run, and the host waits for the thread of a core whose kernel has not returned.

    The simulator's host joins the threads of all cores before it reports anything.
    """
    left = job.unresolved("core-unreturned")
    process = job.snapshot.processes.get(job.run.process)
    if not left or process is None or process.exited or job.first("timeout-exit") is not None:
        return
    cores = [read_facts(said, CoreFacts) for said in left]
    threads = [core.tid for core in cores]
    waiter = _waiter({ids.thread(process.host, process.pid, tid) for tid in threads}, job)
    if waiter is None:
        return  # the run is being set up, or ends
    waited = waited_ns(waiter, job.snapshot) or 0
    stalled = waited >= job.state.settings.thread_stall_ns
    many = len(left) > 1
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    names = ", ".join(_core(core, job) for core in cores[:_SHOWN]) + more
    names = f"The kernels of {len(left)} cores ({names}) have" if many else f"{sentence_case(names)} has"
    yield written(
        "unreturned",
        job,
        {
            "names": names,
            "waited": duration(waited),
            "these": "these cores" if many else "this core",
            "call": waiter.waits_in or "a join",
        },
        **({} if stalled else {"state": VerdictState.UNKNOWN, "decides": True, "severity": Severity.WARNING}),
        roots=tuple(_root(core, job) for core in cores),
        entities=(
            *(_root(core, job) for core in cores),
            *(ids.thread(process.host, process.pid, tid) for tid in threads),
            waiter.id,
        ),
        evidence=evidence(*left, job.first("runtime-failed")),
        since_wall_ns=since_wall_ns(waiter, job.snapshot),
    )


def _waiter(threads: set[str], job: JobDiagnostics) -> Thread | None:
    names = (waiter for thread in sorted(threads) for waiter in job.state.graph.waiters_of(thread))
    return next((job.snapshot.threads[name] for name in names if name in job.snapshot.threads), None)


def _core(left: CoreFacts, job: JobDiagnostics) -> str:
    """Return `task r1t2 (func 2) on core 10`, `the kernel on core 10`."""
    name = job.snapshot.resources.get(f"core:{job.scope}/{left.core}")
    place = name.name if name is not None else f"core {left.core}"
    if left.task is None:
        return f"the kernel on {place}" if left.func is None else f"kernel func {left.func} on {place}"
    task = job.snapshot.tasks.get(_root(left, job))
    kernel = (task.kernel if task is not None else None) or (f"func {left.func}" if left.func is not None else "")
    return f"task {task_name(left.task)}{f' ({kernel})' if kernel else ''} on {place}"


def _root(left: CoreFacts, job: JobDiagnostics) -> str:
    """Return the task that the core was given, or the core if not known."""
    prefix = job.task_prefix.removesuffix("r")
    return f"{prefix}{task_name(left.task)}" if left.task is not None else f"core:{job.scope}/{left.core}"


def core_anomaly(job: JobDiagnostics) -> Iterator[Finding]:
    """An AI core has finished a task, but the scheduler still counts it as busy. The kernel is not stuck."""
    if job.completed:
        return
    for anomaly in job.unresolved("core-anomaly"):
        values, since_ns = {"said": anomaly.sentence}, anomaly.at_wall_ns
        proofs, who = evidence(anomaly), anomaly.entities
        yield written("core-anomaly", job, values, entities=who, evidence=proofs, since_wall_ns=since_ns)
