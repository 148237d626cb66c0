"""Bad values that AOTInductor's printer shows in logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from livedbg.adapters.pytorch.aoti.log_decoder import INFINITE, NAN
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import finding_of


class PrintedValues:
    """The first NaN among printed values."""

    name = "aoti-values"
    doc = (
        "AOTInductor's value printer shows a NaN: the first one, and the kernel after which it is there. Which kernel "
        "made it is said only where what it reads was printed too. What an output buffer holds before a launch is "
        "uninitialised memory, and does not count. Infinity alone is a note, for models mean theirs."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a writer and kind of value."""
        for said in state.snapshot.diagnostics.values():
            if said.system == "pytorch" and said.code == NAN:
                yield replace(finding_of(self.name, said, state, VerdictState.DIVERGED), topic="precision")
            elif said.system == "pytorch" and said.code == INFINITE:
                yield finding_of(self.name, said, state, None)


def rules() -> Sequence[Rule]:
    """The rule of this module."""
    return (PrintedValues(),)
