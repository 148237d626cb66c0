"""Failures of AMD's runtime and kernel driver, as programs and the kernel log them.

Sources: ROCR-Runtime src/core/runtime/runtime.cpp (`Memory access fault by GPU node-…`, `HW Exception by GPU
node-…`) and hsa.cpp (the texts of HSA_STATUS_…), clr rocclr/device/rocm/rocdevice.cpp (`aborting with error`),
PyTorch's c10/hip; Linux drivers/gpu/drm/amd/amdgpu (`page fault`, `ring … timeout`, `GPU reset begin!`).

Invariants:
    rocm_lines.M1. A line about a setting, or a reset that succeeded without an error, is none of these.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass

__all__ = ["CALL", "FAULT", "FORMS", "HARDWARE", "MEMORY"]

FAULT: Final = "gpu-fault"
CALL: Final = "hip-error"
MEMORY: Final = "out-of-memory"
HARDWARE: Final = "kernel-driver"

_BLOCKING: Final = "AMD_SERIALIZE_KERNEL=3 HIP_LAUNCH_BLOCKING=1   (each launch waits: the stack is that of the kernel)"
_GDB: Final = "rocgdb --args COMMAND   (stops at the wave that faults, with its source line)"
_AGENT: Final = "livedbg launch --recipe rocm-debug-agent -- COMMAND   (the kernel and the waves that fault)"
_DMESG: Final = "dmesg -T | grep -i amdgpu   (page faults, ring time-outs and resets at that time)"

_ACCESS = re.compile(
    r"Memory access fault by GPU node-(?P<node>\d{1,6}) \(Agent handle: 0x[0-9a-f]{1,16}\) on address "
    r"(?P<address>0x[0-9a-f]{1,16}|\(nil\))\. Reason: (?P<why>[^.\n]{1,200})"
)
_OFFLOAD = re.compile(  # since ROCm 7
    r"OFFLOAD ERROR: memory access fault by GPU (?P<node>\d{1,6}) \(agent 0x[0-9a-f]{1,16}\) at virtual address "
    r"(?P<address>0x[0-9a-f]{1,16}|\(nil\))\. Reasons?: (?P<why>[^.\n]{1,200})"
)
_EVENT = re.compile(r"HSA_AMD_GPU_MEMORY_FAULT_EVENT: (?P<why>[^)\n]{1,200})")
_EXCEPTION = re.compile(
    r"HW Exception by GPU node-(?P<node>\d{1,6}) \(Agent handle: 0x[0-9a-f]{1,16}\) reason ?: ?(?P<why>[^\n]{1,100})"
)
_STATUS = re.compile(r"(?:aborting with error ?: ?)?(?P<name>HSA_STATUS_ERROR\w{0,60}): (?P<text>[^\n]{1,300})")
_HIP = re.compile(
    r"\bHIP failure (?:\d{1,5} )?'(?P<failure>[^'\n]{1,200})'(?: (?P<failed>hipError\w{1,60}))?"
    r"|\bHIP (?:runtime |driver )?error(?: '(?P<name>hipError\w{1,60})'(?: \(\d{1,5}\))?)?: (?P<text>[^\n;]{1,300})"
)
_OUT = re.compile(
    r"HIP out of memory\. Tried to allocate (?P<size>[\d.]{1,12} [KMGT]iB)(?:[^\n]{0,40}?GPU (?P<gpu>\d{1,4}))?"
    r"(?:[^\n]{0,200}?of which (?P<free>[\d.]{1,12} [KMGT]?i?B(?:ytes)?) is free)?"
)
_PAGE = re.compile(
    r"amdgpu (?P<bus>[0-9a-f:.]{7,16}): amdgpu: \[(?P<hub>\w{1,20})\][^\n]{0,40}page fault \((?P<rest>[^)\n]{1,300})\)?"
)
_PROCESS = re.compile(r"for process (?P<name>[^\n,]{0,40}?) pid (?P<pid>\d{1,10})")
_RING = re.compile(
    r"(?:amdgpu (?P<bus>[0-9a-f:.]{7,16}): )?[^\n]{0,60}\bring (?P<ring>[\w.]{1,40}) timeout[^\n]{0,200}"
)


def _access(match: re.Match[str]) -> Said:
    zero = " at address 0" if match["address"] in ("(nil)", "0x0") else ""
    return Said(
        code=FAULT,
        key=f"{match['node']} {match['address']}",
        sentence=f"GPU {match['node']}: a kernel accessed memory that is not mapped{zero} ({match['why'].strip()})",
        cause=CauseClass.DEVICE,
        steps=(_BLOCKING, _AGENT, _GDB, _DMESG),
        attributes={"node": match["node"], "address": match["address"]},
    )


def _event(match: re.Match[str]) -> Said:
    why = match["why"].strip(" .")
    said = f"A kernel on an AMD GPU accessed memory that is not mapped ({why})"
    return Said(code=FAULT, key=f"event {why}", sentence=said, cause=CauseClass.DEVICE, steps=(_BLOCKING, _GDB, _AGENT))


def _exception(match: re.Match[str]) -> Said:
    why = match["why"].strip(" .")
    said = f"GPU {match['node']}: a hardware exception ({why})"
    return Said(code=FAULT, key=f"{match['node']} {why}", sentence=said, cause=CauseClass.DEVICE, steps=(_DMESG, _GDB))


def _status(match: re.Match[str]) -> Said:
    text = match["text"].partition(" code: ")[0].strip(" .")
    text = text if "(" in text else text.rstrip(").")  # `Queue error (HSA_STATUS_…: text.)`
    return Said(
        code=FAULT,
        key=match["name"],
        sentence=f"The GPU's queue was aborted: {text} ({match['name']})",
        cause=CauseClass.DEVICE,
        steps=(_BLOCKING, _GDB),
        attributes={"status": match["name"]},
    )


def _hip(match: re.Match[str]) -> Said:
    name = match["name"] or match["failed"] or ""
    text = (match["text"] or match["failure"]).strip(" .")[:140]
    named = f" ({name})" if name and name not in text else ""
    memory = "out of memory" in text
    return Said(
        code=MEMORY if memory else CALL,
        key=f"{name} {text}",
        sentence=f"HIP error: {text}{named}",
        cause=CauseClass.PROCESS if memory else CauseClass.DEVICE,
        steps=() if memory else (_BLOCKING, _GDB),
        attributes={"error": name},
    )


def _out(match: re.Match[str]) -> Said:
    gpu = f" of GPU {match['gpu']}" if match["gpu"] else ""
    free = f"; {match['free']} are free" if match["free"] else ""
    return Said(
        code=MEMORY,
        key=f"{match['gpu']} {match['size']}",
        sentence=f"The memory{gpu} ran out: {match['size']} were requested{free}",
        cause=CauseClass.PROCESS,
        steps=("rocm-smi --showmeminfo vram   (who holds it)", "a smaller batch, or PYTORCH_HIP_ALLOC_CONF"),
        attributes={"gpu": match["gpu"] or ""},
    )


def _page(match: re.Match[str]) -> Said:
    process = _PROCESS.search(match["rest"])
    whose = f" of process {process['pid']} ({process['name'].strip()})" if process is not None else ""
    return Said(
        code=HARDWARE,
        key=f"{match['bus']} page {process['pid'] if process is not None else ''}",
        sentence=f"GPU {match['bus']}: a page fault{whose}",
        cause=CauseClass.DEVICE,
        steps=(_BLOCKING, _GDB),
        attributes={"pid": process["pid"] if process is not None else ""},
    )


def _ring(match: re.Match[str]) -> Said:
    who = f"GPU {match['bus']}: " if match["bus"] else "An AMD GPU: "
    process = _PROCESS.search(match[0])
    whose = f", by process {process['pid']} ({process['name'].strip()})" if process is not None else ""
    return Said(
        code=HARDWARE,
        key=f"{match['bus']} {match['ring']}",
        sentence=f"{who}ring {match['ring']} hung{whose}; the driver resets the GPU",
        cause=CauseClass.HOST,
        steps=(_DMESG,),
    )


FORMS: Final = (
    Form(("Memory access fault by GPU node-",), _ACCESS, _access),
    Form(("OFFLOAD ERROR: ",), _OFFLOAD, _access),
    Form(("HSA_AMD_GPU_MEMORY_FAULT_EVENT",), _EVENT, _event),
    Form(("HW Exception by GPU node-",), _EXCEPTION, _exception),
    Form(("HSA_STATUS_ERROR",), _STATUS, _status),
    Form(("HIP error", "HIP failure ", "HIP runtime error", "HIP driver error"), _HIP, _hip),
    Form(("HIP out of memory",), _OUT, _out),
    Form(("page fault (",), _PAGE, _page),
    Form((" timeout",), _RING, _ring),
)
