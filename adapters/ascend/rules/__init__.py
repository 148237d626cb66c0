"""Diagnosis of Ascend runs: stalls, deadlocks, crashes, failures, missing dependencies.

All rules read what the Ascend adapter put on the stream: tasks, edges and the diagnostics of
docs/systems/ascend.md; none of them reads a log. A diagnostic that later lines made obsolete
is `resolved` and is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from livedbg.adapters.ascend.logs import OWN_LINES
from livedbg.adapters.ascend.reports import failed_tests
from livedbg.adapters.ascend.rules.cann_reports import CannReports
from livedbg.adapters.ascend.rules.compiling import CompileRule
from livedbg.adapters.ascend.rules.failed_runs import cann, crash, run_failed, scope_deadlock, starved
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, jobs
from livedbg.adapters.ascend.rules.lost_orders import flag_cycle, missing_edge
from livedbg.adapters.ascend.rules.progress import goes_on, long_run, run_complete
from livedbg.adapters.ascend.rules.stalls import core_anomaly, stall, unreturned
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import Rule, RuleInput


class AscendRule(Struct, frozen=True):
    """A rule that checks each Ascend job in turn; the docstring of `check` is its documentation."""

    name: str
    check: Callable[[JobDiagnostics], Iterable[Finding]]

    @property
    def doc(self) -> str:
        """Return the documentation of the rule."""
        return " ".join((self.check.__doc__ or "").split())

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield its findings in all jobs."""
        found = jobs(state, self.name)
        for job in found:
            for said in self.check(job):
                logs = [proof.log for proof in said.evidence if proof.log]
                failed = any(failed_tests(logs, state.snapshot))  # so it was not handled, though the next test ran
                finding = said if failed else unless_survived(said, state.snapshot, OWN_LINES.search)
                yield _with_run(finding, job) if len(found) > 1 and job.label else finding


def _with_run(finding: Finding, job: JobDiagnostics) -> Finding:
    """Add the run and its folder to a finding, if there are several runs."""
    place = job.run.place
    proofs = finding.evidence
    if place:
        proofs = tuple(
            structs.replace(proof, file=f"{place}/{proof.file}") if proof.file else proof for proof in proofs
        )
    return structs.replace(finding, sentence=f"{job.label}: {finding.sentence}", evidence=proofs)


def rules() -> Sequence[Rule]:
    """Return the rules for Ascend, most telling first."""
    return (
        CompileRule(),
        AscendRule("ascend-crash", crash),
        AscendRule("ascend-stall", stall),
        AscendRule("ascend-long", long_run),
        AscendRule("ascend-unreturned", unreturned),
        AscendRule("ascend-scope-deadlock", scope_deadlock),
        AscendRule("ascend-core-anomaly", core_anomaly),
        AscendRule("ascend-run-failed", run_failed),
        AscendRule("ascend-cann-code", cann),
        AscendRule("ascend-starved-watchdog", starved),
        AscendRule("ascend-missing-edge", missing_edge),
        AscendRule("ascend-flag-cycle", flag_cycle),
        CannReports(),
        AscendRule("ascend-run-complete", run_complete),
        AscendRule("ascend-run-goes-on", goes_on),
    )
