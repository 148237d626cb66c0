"""Results that differ from the golden ones, as the harness that compared them printed it."""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.adapters.ascend.golden_lines import CODE
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Severity

__all__ = ["GoldenMismatch"]


class GoldenMismatch:
    """A comparison with golden data failed."""

    name = "ascend-golden"
    doc = (
        "The harness of pypto-lib or simpler compared a run's outputs with golden ones, and they differ: which, and in "
        "how many elements. `diverged` where no process of the job is alive; one that passes later in the same "
        "log takes it back."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a log."""
        alive = any(process.target and not process.exited for process in state.snapshot.processes.values())
        for said in state.snapshot.diagnostics.values():
            if said.system != "ascend" or said.code != CODE or said.resolved:
                continue
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING if alive else Severity.ERROR,
                sentence=said.sentence,
                evidence=said.evidence,
                next=(
                    "livedbg launch --recipe ascend-golden-data=DIR --recipe ascend-dump-args=2 --recipe "
                    "ascend-deps=enable-dep-gen -- COMMAND   (the same data again, with all arguments and edges)",
                    "livedbg values RUN --against DIR   (DIR: the golden data, or the dump of a run that passed)",
                ),
                state=None if alive else VerdictState.DIVERGED,
                since_wall_ns=said.at_wall_ns,
            )
