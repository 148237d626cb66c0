"""Samples of devices: places of kernels, and kernels that have not moved since the sample before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from livedbg.analysis.devices import headline, kernel_sentence
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import duration, many
from livedbg.model import Evidence, Severity
from livedbg.model.devices import DeviceKernel, DeviceState
from livedbg.model.snapshot import Snapshot


class StandsStill(Struct, frozen=True):
    """Rule for a kernel that an earlier sample saw at the same place."""

    name: str = "device-hang"
    doc: str = (
        "Two samples of a device, some time apart, have the same grid with as many warps, most of them at the same "
        "place: the kernel hangs, or computes there for very long (inferred). Names the line, and what the warps wait "
        "at. No finding once the process has exited."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for device in state.snapshot.devices.values():
            for kernel in _hung(device, state):
                yield _still(self.name, device, kernel)


class Stands(Struct, frozen=True):
    """Rule for a single sample."""

    name: str = "device-blocked"
    doc: str = (
        "A sample of a device shows where the warps of its largest kernel are. By itself it proves nothing: a "
        "second sample shows whether they move. Exceptions are left to the rules of the device's system."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for device in state.snapshot.devices.values():
            if device.faults or not device.kernels or _hung(device, state):
                continue
            of_process, ended = device.target.startswith("process:"), _ended(device, state.snapshot)
            again = device.repeat if of_process and not ended else device.reopen
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"{'Before its process ended: ' if ended else ''}{headline(device)}",
                entities=(device.target,) if of_process else (),
                evidence=(_evidence(device),),
                next=(again,) if again else (),
                since_wall_ns=device.taken_wall_ns,
                state=None if of_process else VerdictState.UNKNOWN,  # a core dump alone: that is all there is to say
            )


def _hung(device: DeviceState, state: RuleInput) -> list[DeviceKernel]:
    least_ns = state.settings.task_stall_ns
    ended = _ended(device, state.snapshot)
    return [kernel for kernel in device.kernels if not ended and _still_ns(device, kernel) >= least_ns]


def _still_ns(device: DeviceState, kernel: DeviceKernel) -> int:
    since_ns = kernel.still_since_wall_ns
    return (device.taken_wall_ns or 0) - since_ns if since_ns else 0


def _ended(device: DeviceState, snapshot: Snapshot) -> bool:
    process = snapshot.processes.get(device.target)
    return process is not None and process.exited


def _still(rule: str, device: DeviceState, kernel: DeviceKernel) -> Finding:
    live = device.target.startswith("process:")
    sentence = kernel_sentence(device, kernel).rstrip(".")
    return Finding(
        rule=rule,
        severity=Severity.ERROR,
        sentence=f"{sentence}; unchanged since a sample {duration(_still_ns(device, kernel))} earlier.",
        entities=(device.target,) if live else (),
        evidence=(_evidence(device),),
        next=("check what this source line waits for, and who should signal it: the screen Device (0)",),
        inferred=True,
        since_wall_ns=kernel.still_since_wall_ns,
        state=VerdictState.STALLED,
    )


def _evidence(device: DeviceState) -> Evidence:
    kernels, places = many(len(device.kernels), "kernel"), many(len(device.places), "place")
    text = f"{device.source}: {kernels} at {places}"
    return Evidence(
        kind="file", file=device.path or device.tool or device.source, text=text, at_wall_ns=device.taken_wall_ns
    )


def rules() -> Sequence[Rule]:
    return (StandsStill(), Stands())
