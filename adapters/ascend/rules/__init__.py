"""Diagnosis of Ascend runs: stalls, deadlocks, crashes, failures, missing dependencies.

All rules read what the Ascend adapter put on the stream: tasks, edges and the diagnostics of
docs/systems/ascend.md; none of them reads a log. A diagnostic that later lines made obsolete
is `resolved` and is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from livedbg.adapters.ascend.lines import OWN_LINES
from livedbg.adapters.ascend.rules.cann_reports import CannReports
from livedbg.adapters.ascend.rules.compiling import CompileRule
from livedbg.adapters.ascend.rules.cores import core_anomaly, unreturned
from livedbg.adapters.ascend.rules.failed_runs import cann, crash, run_failed, starved
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, jobs
from livedbg.adapters.ascend.rules.lost_orders import flag_cycle, missing_edge
from livedbg.adapters.ascend.rules.progress import goes_on, long_run, run_complete
from livedbg.adapters.ascend.rules.rings import scope_deadlock
from livedbg.adapters.ascend.rules.stalls import stall
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.survived import unless_survived

__all__ = ["AscendRule", "rules"]


class AscendRule(Struct, frozen=True):
    """A rule that checks each Ascend job in turn."""

    name: str
    doc: str
    check: Callable[[str, JobDiagnostics, RuleInput], Iterable[Finding]]

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """What it finds in `state`."""
        found = jobs(state.snapshot)
        for job in found:
            for said in self.check(self.name, job, state):
                finding = unless_survived(said, state.snapshot, OWN_LINES)
                yield _of_one(finding, job) if len(found) > 1 and job.label else finding


def _of_one(finding: Finding, job: JobDiagnostics) -> Finding:
    """A finding of one of several runs: says which, and in which folder its evidence lies."""
    place = job.run.place
    proofs = finding.evidence
    if place:
        proofs = tuple(
            structs.replace(proof, file=f"{place}/{proof.file}") if proof.file else proof for proof in proofs
        )
    return structs.replace(finding, sentence=f"{job.label}: {finding.sentence}", evidence=proofs)


def rules() -> Sequence[Rule]:
    """The rules for Ascend, most telling first."""
    return (
        CompileRule(),
        AscendRule(
            "ascend-crash",
            "The process of an Ascend run ended by a signal or an uncaught C++ exception (log, or exit status). The "
            "task that was running then is named as the likely place, which is inferred.",
            crash,
        ),
        AscendRule(
            "ascend-stall",
            "A task of an Ascend run does not complete, and others wait for it. The evidence is the scheduler's "
            "watchdog ([STALL …], TIMEOUT_EXIT), a full ring's oldest task, a tensor that the orchestrator waits "
            "for, or (inferred) the quiet log of a living process with tasks in flight. Without a process, a log that "
            "ends with tasks in flight is inconclusive. The finding names the cause, not the symptom.",
            stall,
        ),
        AscendRule(
            "ascend-long",
            "A run whose scheduler's memory shows no progress for long, before the limit of its watchdog: a task that "
            "runs for long, or an orchestrator that submits nothing. Slow or stuck: that can't be told, so the verdict "
            "is unknown.",
            long_run,
        ),
        AscendRule(
            "ascend-unreturned",
            "The scheduler has ended the run, and the host waits for the thread of a core whose kernel has not "
            "returned. The simulator's host joins the threads of all cores before it reports anything.",
            unreturned,
        ),
        AscendRule(
            "ascend-scope-deadlock",
            "The orchestrator waits for a slot of a ring, or for memory of its heap, that only the end of its own open "
            "scope can free.",
            scope_deadlock,
        ),
        AscendRule(
            "ascend-core-anomaly",
            "An AI core has finished a task, but the scheduler still counts it as busy. The kernel is not stuck.",
            core_anomaly,
        ),
        AscendRule(
            "ascend-run-failed",
            "An Ascend run ended with an error code that no stall explains. The finding has its meaning and the "
            "runtime's hint.",
            run_failed,
        ),
        AscendRule(
            "ascend-cann-code",
            "The logs show only an error code of CANN (507018, 507046, …) or a time-out below the runtime. Most of "
            "these codes mask the cause; the finding names the log that has it.",
            cann,
        ),
        AscendRule(
            "ascend-starved-watchdog",
            "The scheduler's watchdog fired, but its thread had hardly run: a debugger stopped it, or it got no "
            "processor time. Such a time-out is no evidence of a stall.",
            starved,
        ),
        AscendRule(
            "ascend-missing-edge",
            "A task reads or overwrites bytes of a tensor that another task wrote last, and deps.json has no path from "
            "the writer to it (an argument declared as output where it is read too, or a manual scope without an "
            "explicit dependency). The runtime does not track write-after-read orders, and this rule "
            "does not check them.",
            missing_edge,
        ),
        AscendRule(
            "ascend-flag-cycle",
            "A stuck task and a task that depends on it both name a tensor without dependency: a flag in memory may "
            "close a cycle that no edge declares. Always inferred.",
            flag_cycle,
        ),
        CannReports(),
        AscendRule("ascend-run-complete", "An Ascend run completed all its tasks.", run_complete),
        AscendRule(
            "ascend-run-goes-on",
            "An Ascend run has not ended and its log is being written to (running), or its log ends before the run "
            "does and names no task that is under way (unknown).",
            goes_on,
        ),
    )
