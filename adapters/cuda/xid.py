"""Xid and SXid lines: what the NVIDIA driver writes into the kernel log when a GPU, an NVSwitch or a program fails.

Source: NVIDIA, "Xid Errors" and its "Xid Catalog" (docs.nvidia.com/deploy/xid-errors): description and resolution
bucket of each number, in our own text. Forms of the line: `NVRM: Xid (PCI:0000:00:06): 31, pid=79749, name=exe,
Ch 0000000a, …`, with `0000:01:00` alone before driver 304, and without pid and name if no process caused it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from livedbg.adapters.cuda.statement import Statement
from livedbg.model import Severity

__all__ = ["SwitchXid", "Xid", "XidKind", "meaning_of", "parse_switch_xid", "parse_xid", "xid_statement"]

_LINE: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<gpu>[0-9A-Fa-f:.]{5,20})(?: GPU-I:\d+)?\): (?P<number>\d{1,4})(?:, ?(?P<rest>.*))?"
)
_PID: Final = re.compile(r"pid='?(?P<pid>\d{1,10})'?")
_NAME: Final = re.compile(r"name=(?P<name>[^,]{1,200})")
_FAULT: Final = re.compile(r"faulted @ (?P<address>0x[0-9a-fA-F_]+)\. Fault is of type (?P<kind>\w+) (?P<access>\w+)")


_RESTART: Final = "restart the program"
_SANITIZE: Final = "livedbg launch --recipe compute-sanitizer=memcheck -- COMMAND   (names the kernel, thread and line)"
_RESET: Final = "reset the GPU (nvidia-smi --gpu-reset -i GPU, with nothing running on it) or reboot the node"
_SUPPORT: Final = "if it comes again after a reset, have the hardware checked (nvidia-bug-report.sh, dcgmi diag -r 3)"
_ECC: Final = "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"
_LINKS: Final = "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters"
_BUS: Final = "look for PCIe errors around it: dmesg | grep -iE 'pcie|aer'"


_SWITCH: Final = re.compile(
    r"SXid \((?:PCI:)?(?P<gpu>[0-9A-Fa-f:.]{5,20})\): (?P<number>\d{1,6}), "
    r"(?:(?P<fatal>Non-fatal|Fatal), )?(?P<rest>.*)"
)


class XidKind(StrEnum):
    """Who is to blame for an Xid, as far as its number says."""

    PROGRAM = "program"  # usually the program on the GPU
    GPU = "gpu"  # the GPU, its memory, its links
    DRIVER = "driver"  # driver or firmware
    AFTERMATH = "aftermath"  # follows from something else
    NOTICE = "notice"  # nothing has failed


_TABLE: Final[dict[int, tuple[XidKind, str, tuple[str, ...]]]] = {
    8: (XidKind.PROGRAM, "the GPU stopped processing", (_RESTART, _SUPPORT)),
    11: (XidKind.PROGRAM, "a corrupted push buffer", (_RESTART, "try another driver version")),
    13: (
        XidKind.PROGRAM,
        "a fault of a kernel: usually an access out of bounds, else an illegal instruction or register",
        (_SANITIZE, "livedbg launch --recipe cuda-coredump -- COMMAND"),
    ),
    25: (XidKind.PROGRAM, "an illegal push buffer", (_RESTART, "try another driver version")),
    31: (
        XidKind.PROGRAM,
        "a page fault in GPU memory: an access to an address that is not mapped",
        (_SANITIZE, "livedbg launch --recipe cuda-coredump -- COMMAND"),
    ),
    32: (XidKind.GPU, "a corrupted command stream between driver and GPU (PCIe quality)", (_BUS, _RESTART)),
    38: (XidKind.DRIVER, "an error of the driver's firmware (watchdog)", (_RESTART, _SUPPORT)),
    39: (XidKind.PROGRAM, "a fault of copy engine 0", (_RESTART, _SUPPORT)),
    40: (XidKind.PROGRAM, "a fault of copy engine 1", (_RESTART, _SUPPORT)),
    41: (XidKind.PROGRAM, "a fault of copy engine 2", (_RESTART, _SUPPORT)),
    43: (
        XidKind.PROGRAM,
        "the GPU stopped the program's work after a fault that the program made; the GPU itself is well",
        (_SANITIZE,),
    ),
    44: (XidKind.GPU, "a fault while the GPU switched contexts", (_RESTART, _SUPPORT)),
    45: (
        XidKind.AFTERMATH,
        "the driver cleaned up after a program that was ended or had failed before",
        ("look for the Xid or the signal before it",),
    ),
    46: (XidKind.GPU, "the GPU stopped processing and does not answer", (_RESET, _SUPPORT)),
    48: (XidKind.GPU, "an uncorrectable (double bit) ECC error", (_ECC, _RESET, _SUPPORT)),
    54: (XidKind.GPU, "the auxiliary power of the board is not connected", ("check the power cables of the GPU",)),
    62: (XidKind.GPU, "the GPU's microcontroller has halted", (_RESET, _SUPPORT)),
    63: (XidKind.NOTICE, "a bad memory row or page was taken out of use", (_ECC,)),
    64: (XidKind.GPU, "a bad memory row or page could not be taken out of use", (_ECC, _RESET, _SUPPORT)),
    66: (XidKind.DRIVER, "an illegal access by the driver", ("update the driver",)),
    68: (XidKind.PROGRAM, "a fault of the video decoder", (_RESTART,)),
    69: (XidKind.PROGRAM, "a class error of the graphics engine", (_RESTART, "try another driver version")),
    74: (XidKind.GPU, "an NVLink error (or the GPU at the other end has failed)", (_LINKS, _RESET, _SUPPORT)),
    79: (
        XidKind.GPU,
        "the GPU has fallen off the bus: it does not answer any more",
        (_BUS, "reboot the node", _SUPPORT),
    ),
    92: (XidKind.NOTICE, "a high rate of single bit (corrected) ECC errors", (_ECC, _SUPPORT)),
    94: (
        XidKind.GPU,
        "an uncorrectable memory error that was contained to one program",
        (_RESTART, _ECC, "reset the GPU when convenient"),
    ),
    95: (XidKind.GPU, "an uncorrectable memory error that was not contained", (_RESET, _ECC, _SUPPORT)),
    109: (XidKind.GPU, "a time-out while the GPU switched contexts", (_RESET, _SUPPORT)),
    110: (XidKind.GPU, "a security fault of the GPU", ("cold-reset the system", _SUPPORT)),
    119: (XidKind.DRIVER, "the GPU's system processor (GSP) did not answer in time", (_RESET, _SUPPORT)),
    120: (XidKind.DRIVER, "an error of the GPU's system processor (GSP)", (_RESET, _SUPPORT)),
    121: (XidKind.NOTICE, "corrected errors on the link to the CPU (C2C)", ("reset the GPU when convenient",)),
    136: (XidKind.GPU, "the training of an NVLink failed", (_LINKS, _RESET)),
    137: (XidKind.PROGRAM, "an illegal access of another GPU's memory over NVLink", (_SANITIZE,)),
    140: (XidKind.GPU, "an uncorrectable memory error that could not be handled", (_RESET, _SUPPORT)),
    143: (XidKind.GPU, "the GPU could not be initialised", (_RESET, _SUPPORT)),
    **dict.fromkeys(range(144, 151), (XidKind.GPU, "an NVLink error", (_LINKS, _RESET))),
    154: (XidKind.NOTICE, "what the GPU needs to recover has changed", ("do what the line says",)),
    155: (XidKind.NOTICE, "an NVLink went down", (_LINKS,)),
    158: (XidKind.GPU, "a fatal time-out of the GPU", (_RESET, _SUPPORT)),
    171: (XidKind.GPU, "an uncorrectable error of the GPU's DRAM", (_ECC, _RESET)),
    172: (XidKind.GPU, "an uncorrectable error of the GPU's SRAM", (_ECC, _RESET)),
}


_UNKNOWN: Final = (XidKind.DRIVER, "no meaning is known here", ("look it up in NVIDIA's Xid catalog",))


@dataclass(frozen=True, slots=True)
class SwitchXid:
    """What an NVSwitch's driver says (Fabric Manager User Guide, "SXid Errors")."""

    switch: str
    number: int
    fatal: bool
    rest: str


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid line.

    Attributes:
        gpu: PCI address of the GPU.
        pid: the process that used it, in the PID namespace of the host.
        name: its command.
        rest: what the driver adds.
    """

    gpu: str
    number: int
    pid: int | None
    name: str
    rest: str

    @property
    def fault(self) -> str:
        """`a write at 0x2b57b3000000 (FAULT_PDE)` of an MMU fault, or ""."""
        match = _FAULT.search(self.rest)
        if match is None:
            return ""
        access = match["access"].removeprefix("ACCESS_TYPE_").removeprefix("VIRT_").lower()
        return f"a {access} at {match['address'].replace('_', '')} ({match['kind']})"


def parse_xid(line: str) -> Xid | None:
    """The Xid that a line reports."""
    match = _LINE.search(line)
    if match is None:
        return None
    rest = match["rest"] or ""
    pid, name = _PID.search(rest), _NAME.search(rest)
    return Xid(
        gpu=match["gpu"],
        number=int(match["number"]),
        pid=int(pid["pid"]) if pid is not None else None,
        name=name["name"].strip() if name is not None else "",
        rest=rest.strip(),
    )


def parse_switch_xid(line: str) -> SwitchXid | None:
    """The SXid that a line reports."""
    match = _SWITCH.search(line)
    if match is None:
        return None
    return SwitchXid(match["gpu"], int(match["number"]), match["fatal"] == "Fatal", match["rest"].strip())


def meaning_of(number: int) -> tuple[XidKind, str, tuple[str, ...]]:
    """Who is to blame, what it means, and what to do next."""
    return _TABLE.get(number, _UNKNOWN)


def xid_statement(line: str) -> Statement | None:
    """The Xid or SXid that a line of the kernel's log reports, in words."""
    xid = parse_xid(line)
    if xid is None:
        return _switch_xid(line)
    kind, words, steps = meaning_of(xid.number)
    severity = {XidKind.NOTICE: Severity.INFO, XidKind.AFTERMATH: Severity.WARNING}.get(kind, Severity.CRITICAL)
    fault = f": {xid.fault}" if xid.fault else ""
    attributes = {
        "xid": str(xid.number),
        "kind": kind.value,
        "gpu": xid.gpu,
        "pid": str(xid.pid) if xid.pid is not None else "",
        "name": xid.name,
        "fault": xid.fault,
        "rest": xid.rest[:500],
        "next": "\n".join(steps),
    }
    return Statement(
        "xid",
        f"Xid {xid.number} of GPU {xid.gpu}: {words}{fault}",
        severity,
        key=(str(xid.pid),),
        attributes={name: value for name, value in attributes.items() if value},
    )


def _switch_xid(line: str) -> Statement | None:
    xid = parse_switch_xid(line)
    if xid is None:
        return None
    how, kind = ("a fatal error", XidKind.GPU) if xid.fatal else ("an error that is not fatal", XidKind.NOTICE)
    attributes = {
        "xid": f"S{xid.number}",
        "kind": kind.value,
        "gpu": xid.switch,
        "rest": xid.rest[:500],
        "next": "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
    }
    what = f"SXid {xid.number} of NVSwitch {xid.switch}: {how}: {xid.rest[:200]}".rstrip(": ")
    return Statement("xid", what, Severity.CRITICAL if xid.fatal else Severity.WARNING, attributes=attributes)
