"""Faults of CUDA whose process lives: the context is lost, the process has not crashed.

Invariants:
    living.L1. A fault that a log, the kernel or NVML reports is a crash only where no process that it may be of was
        seen alive.
"""

from __future__ import annotations

from collections.abc import Collection

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.words import name_of
from livedbg.analysis.wording import with_more
from livedbg.model import Process, Severity, ThreadState
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

CONTEXT_LOST = "The CUDA context is lost, and {} still lives: every CUDA call in that context fails."
"""What is said of a process that outlives the fault."""

_OVER = (ThreadState.ZOMBIE, ThreadState.DEAD)


def first_alive(entities: Collection[str], snapshot: Snapshot) -> Process | None:
    """A living process among entities; if none of them is a known process, any target that lives."""
    named = [snapshot.processes[entity] for entity in entities if entity in snapshot.processes]
    about = named or [process for process in snapshot.processes.values() if process.target]
    return next((process for process in about if not process.exited and process.state not in _OVER), None)


def unless_alive(
    finding: Finding, snapshot: Snapshot, words: str = "{} still lives.", *, decides: bool = True
) -> Finding:
    """A finding of a crash; an inconclusive one if the process that it names, or may be of, was seen alive (L1).

    Args:
        finding: the finding.
        snapshot: what is known.
        words: what is said of that process, with a place for its name.
        decides: the verdict is `unknown` also while the process makes progress.
    """
    if finding.state is not VerdictState.CRASHED:
        return finding
    process = first_alive(finding.entities, snapshot)
    if process is None:
        return finding
    said = sentence_case(words.format(name_of(process.id, snapshot)))
    return with_more(
        finding,
        said,
        state=VerdictState.UNKNOWN,
        decides=decides,
        severity=Severity.ERROR,
        next=(*finding.next, f"livedbg stacks {process.pid}   (shows where it waits, or what it does now)"),
    )
