"""What the NVIDIA driver writes into the kernel's log without an Xid: GPUs that are gone, or can't be initialised.

Source: open-gpu-kernel-modules kernel-open/nvidia/{nv-pci.c,nv.c}, src/nvidia/arch/nvalloc/unix/src/{osinit,osapi}.c.

Invariants:
    nvrm_lines.N1. The kernel's log of a host beside the logs of a job does not say which of its jobs used that GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_of
from livedbg.logs.said import Form, Said, SaidDecoder, words_of
from livedbg.model import CauseClass

__all__ = ["DriverLinesDecoder", "DriverLogged"]

_CODE: Final = "nvrm-failed"
_BUS: Final = "look for PCIe errors around it: dmesg | grep -iE 'pcie|aer|nvrm'"
_REBOOT: Final = "reset the GPU or reboot the node; if it comes again, have the board, its power and its slot checked"
_MODULE: Final = "check that driver and GPU fit each other, and that no other module holds the GPU (lsmod, dmesg)"

_GONE = re.compile(
    r"(?:The NVIDIA GPU (?P<bus>[0-9a-fA-F:.]{7,16})(?:[^\n]{0,200}\n){0,3}?[^\n]{0,200}?"
    r"|GPU(?: at)? (?:PCI:)?(?P<at>[0-9a-fA-F:.]{7,16})[^\n]{0,60}?)"
    r"fallen off the bus"
)
_INIT = re.compile(r"NVRM: GPU (?P<bus>[0-9a-fA-F:.]{7,16}): (?:RmInitAdapter|rm_init_adapter) failed")


def _gone(match: re.Match[str]) -> Said:
    bus = (match["bus"] or match["at"]).rstrip(".:")
    said = f"GPU {bus} has fallen off the bus: it does not answer any more"
    return Said(code=_CODE, key=f"bus {bus}", sentence=said, cause=CauseClass.HOST, steps=(_BUS, _REBOOT))


def _init(match: re.Match[str]) -> Said:
    bus = match["bus"]
    said = f"The driver could not initialise GPU {bus} (RmInitAdapter failed)"
    return Said(code=_CODE, key=f"init {bus}", sentence=said, cause=CauseClass.HOST, steps=(_MODULE, _REBOOT))


_FORMS: Final = (
    Form(("fallen off the bus",), _GONE, _gone),
    Form(("RmInitAdapter failed", "rm_init_adapter failed"), _INIT, _init),
)


class DriverLinesDecoder(SaidDecoder):
    """Makes a diagnostic of each GPU of which the driver says so."""

    name = "cuda"
    forms: ClassVar[Sequence[Form]] = _FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(_FORMS), b"NVRM: The NVIDIA GPU ", b"NVRM: (PCI ID: ")


class DriverLogged:
    """GPUs that are gone, or could not be initialised."""

    name = "cuda-driver"
    doc = (
        "The NVIDIA driver wrote, without an Xid, that a GPU has fallen off the bus or could not be initialised. A "
        "crash "
        "if the kernel's log is all there is; `unknown` beside the logs of a job, which may use another GPU."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a GPU."""
        alone = len(state.snapshot.log_sources) < 2
        for said in state.snapshot.diagnostics.values():
            if said.system == "cuda" and said.code == _CODE:
                yield finding_of(self.name, said, state, VerdictState.CRASHED if alone else VerdictState.UNKNOWN)
