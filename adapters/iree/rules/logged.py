"""Failures of IREE and of Vulkan, as logs tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import finding_of
from livedbg.model import CauseClass


class VulkanLogged:
    """Errors of Vulkan."""

    name = "vulkan-error"
    doc = (
        "A Vulkan call returned an error, the device was lost, or the validation layer reports a wrong call, in a log. "
        "A lost device is a crash; validation errors and other results alone are `unknown`, for a program goes on "
        "after "
        "them. What the validation layer says after a lost device follows from it, and decides nothing."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """The lost device first; one finding an error."""
        said = [one for one in state.snapshot.diagnostics.values() if one.system == "iree"]
        lost = [one for one in said if one.code == "vulkan-device-lost"]
        failed = [one for one in said if one.code == "status"]
        for one in lost:
            if not any(other.cause is CauseClass.DEVICE for other in failed):
                yield finding_of(self.name, one, state, VerdictState.CRASHED)
        for one in said:
            if one.code in ("vulkan-validation", "vulkan-result"):
                yield finding_of(self.name, one, state, None if lost or failed else VerdictState.UNKNOWN)


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (VulkanLogged(),)
