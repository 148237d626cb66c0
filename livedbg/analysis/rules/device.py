"""What a look at a device says: where its kernels stand, and which have not moved since the look before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import many
from livedbg.cuda.words import headline, kernel_sentence
from livedbg.devicestate import DeviceKernel, DeviceState
from livedbg.model import Evidence, Severity

__all__ = ["rules"]

_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StandsStill:
    """A kernel that an earlier look saw at the same place."""

    name: str = "device-hang"
    doc: str = (
        "Two looks at a device, a while apart, saw the same grid with as many warps, most of them at the same place: "
        "the kernel hangs, or computes there for very long (inferred). Names the line, and what the warps wait at."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a kernel."""
        for device in state.snapshot.devices.values():
            for kernel in device.kernels:
                still_ns = (device.taken_wall_ns or 0) - (kernel.still_since_wall_ns or 0)
                if kernel.still_since_wall_ns and still_ns >= state.settings.task_stall_ns:
                    yield _still(self.name, device, kernel, still_ns)


@dataclass(frozen=True, slots=True)
class Stands:
    """What one look saw."""

    name: str = "device-stands"
    doc: str = (
        "A look at a device was taken: where the warps of its largest kernel stand. By itself it concludes nothing: a "
        "second look tells whether they move. Exceptions are told by `cuda-fault`."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a look."""
        for device in state.snapshot.devices.values():
            if device.faults or not device.kernels or any(kernel.still_since_wall_ns for kernel in device.kernels):
                continue
            live = device.target.startswith("process:")
            pid = device.target.rpartition("/")[2]
            again = f"livedbg device {pid} --dump --again 15" if live else f"livedbg device {device.path}"
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=headline(device),
                entities=(device.target,) if live else (),
                evidence=(_evidence(device),),
                next=(again,),
                since_wall_ns=device.taken_wall_ns,
                state=None if live else VerdictState.UNKNOWN,  # a core dump alone: that is all there is to say
            )


def _still(rule: str, device: DeviceState, kernel: DeviceKernel, still_ns: int) -> Finding:
    live = device.target.startswith("process:")
    sentence = kernel_sentence(device, kernel).rstrip(".")
    return Finding(
        rule=rule,
        severity=Severity.ERROR,
        sentence=f"{sentence}; a look {still_ns / _S:.0f} s earlier saw the same.",
        entities=(device.target,) if live else (),
        evidence=(_evidence(device),),
        next=("look at what the line waits for, and at who should bring it about: the screen Device (0)",),
        inferred=True,
        since_wall_ns=kernel.still_since_wall_ns,
        state=VerdictState.STALLED,
    )


def _evidence(device: DeviceState) -> Evidence:
    kernels, places = many(len(device.kernels), "kernel"), many(len(device.places), "place")
    text = f"{device.source}: {kernels}, which stand at {places}"
    return Evidence(kind="file", source=device.path or "cuda-gdb", text=text, at_wall_ns=device.taken_wall_ns)


def rules() -> Sequence[Rule]:
    """The rules for looks at devices, most telling first."""
    return (StandsStill(), Stands())
