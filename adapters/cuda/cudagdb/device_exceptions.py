"""CUDA exceptions (CUDA_EXCEPTION_N): how cuda-gdb names and reports them, what they mean, and what to do next.

Sources: cuda-gdb manual, "GPU Error Reporting"; gdb/cuda/cuda-exceptions.c in cuda-gdb's source. The debugger has a
name for each; exceptions of old versions have numbers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from livedbg.text.sanitize import clean_line

_MOST: Final = 1 << 16
_LONGEST: Final = 4_096  # characters of a line; in a longer one a failed search takes too long
_SIGNAL: Final = re.compile(r"CUDA_EXCEPTION_(\d{1,18})")
_NAMED: Final = re.compile(
    r"(?:^CUDA Exception: |received signal CUDA_EXCEPTION_\d{1,18}, )([^\n]+?)\.?$", re.MULTILINE
)
_ASSERTED: Final = re.compile(r"^Assertion failed\.$", re.MULTILINE)
_ORIGIN: Final = re.compile(
    r"The exception was triggered at PC (0x[0-9a-f]{1,16})(?:  ([^\n(][^\n]{0,2000}?))?"
    r"(?:\s{1,100}\(([^():\n]{1,2000}):(\d{1,18})[^\n]{0,2000}\))?$",
    re.MULTILINE,
)


MEMCHECK: Final = (
    "livedbg launch --recipe compute-sanitizer=memcheck -- COMMAND   (names the access and the allocation beside it)"
)
_STACK: Final = "look for deep recursion and large local arrays; cudaDeviceSetLimit(cudaLimitStackSize) gives more"
_CODE: Final = "look for overwritten function pointers, and for a driver that is older than the toolkit"
_BARRIER: Final = "compare arrivals and expected bytes at each mbarrier with what it was initialised to"
_CLUSTER: Final = "check the ranks given to map_shared_rank(), and that no block of the cluster ends early"


class Fault(NamedTuple):
    """What a device exception means.

    Attributes:
        code: N of CUDA_EXCEPTION_N; None for a name that is not known here.
    """

    code: int | None
    meaning: str
    remedy: str


FAULTS: Final[Mapping[str, Fault]] = {
    "Device Unknown Exception": Fault(0, "The device reports an error without saying which.", MEMCHECK),
    "Lane Illegal Address": Fault(1, "A thread accessed an illegal global address.", MEMCHECK),
    "Lane User Stack Overflow": Fault(2, "A thread used more stack than it has.", _STACK),
    "Device Hardware Stack Overflow": Fault(3, "The device's own call stack overflowed.", _STACK),
    "Warp Illegal Instruction": Fault(4, "A thread executed an illegal instruction.", _CODE),
    "Warp Out of range Address": Fault(5, "A thread accessed local or shared memory outside of its range.", MEMCHECK),
    "Warp Misaligned Address": Fault(6, "A thread accessed an address that is not aligned for its size.", MEMCHECK),
    "Warp Invalid Address Space": Fault(7, "A thread accessed a memory space that its instruction may not.", MEMCHECK),
    "Warp Invalid PC": Fault(8, "A thread jumped to where no code can be.", _CODE),
    "Warp Hardware Stack Overflow": Fault(9, "A thread overflowed the hardware's call stack.", _STACK),
    "Device Illegal Address": Fault(10, "A thread accessed an illegal global address.", MEMCHECK),
    "Lane Misaligned Address": Fault(11, "A thread accessed an address that is not aligned for its size.", MEMCHECK),
    "Warp Assert": Fault(12, "A device-side assert failed.", "standard error has the assertion, its file and line"),
    "Lane Syscall Error": Fault(
        13, "A call of the device runtime (malloc, free, a launch) failed in a thread.", MEMCHECK
    ),
    "Warp Illegal Address": Fault(14, "A thread accessed an illegal global, local or shared address.", MEMCHECK),
    "Invalid Managed Memory Access": Fault(
        15,
        "The host touched managed memory that the device was using.",
        "call cudaDeviceSynchronize() before the host touches it",
    ),
    "Cluster target block not present": Fault(17, "A block accessed a block that is not in its cluster.", _CLUSTER),
    "Cluster out of range address": Fault(
        18, "A block accessed shared memory of its cluster outside of its range.", _CLUSTER
    ),
    "Warp Stack Canary": Fault(
        19, "Something wrote over the end of a local array: the stack canary has changed.", MEMCHECK
    ),
    "Warp Tensor Memory Access Check": Fault(20, "An access to tensor memory failed its check.", MEMCHECK),
    "Warp Tensor Memory Leak": Fault(
        21, "A kernel ended with tensor memory that it had not freed.", "pair each tcgen05.alloc with a tcgen05.dealloc"
    ),
    "Warp Call Requires Newer Driver": Fault(
        22, "The code needs a newer driver.", "update the driver, or build with an older toolkit"
    ),
    "Warp Misaligned PC": Fault(23, "A thread jumped to an address where no instruction begins.", _CODE),
    "Warp PC Overflow": Fault(24, "A thread ran beyond the address space.", _CODE),
    "Warp Misaligned Register": Fault(25, "An instruction used a register pair that is not aligned.", _CODE),
    "Warp Illegal Instruction Encoding": Fault(26, "A thread executed something that is no instruction.", _CODE),
    "Warp Illegal Instruction Parameter": Fault(27, "An instruction had an illegal parameter.", _CODE),
    "Warp Out of range Register": Fault(28, "An instruction used a register that the kernel doesn't have.", _CODE),
    "Warp Illegal Constant Address Access": Fault(29, "A thread accessed an illegal constant address.", MEMCHECK),
    "Warp MMU Fault": Fault(
        30, "The memory unit refused an access: the page is not mapped, or not for that.", MEMCHECK
    ),
    "Warp Barrier Arrival Mismatch": Fault(
        31, "An mbarrier got more arrivals than it expects, or is locked.", _BARRIER
    ),
    "Warp Shared Memory Issue": Fault(
        32, "An access within the cluster hit an error that can't be corrected.", "nvidia-smi -q -d ECC"
    ),
    "Warp API Stack Error": Fault(33, "A thread exceeded the stack of the device runtime.", _STACK),
    "Warp Block Not Present": Fault(34, "A block was needed (by its cluster, at a barrier) that is gone.", _CLUSTER),
    "Warp User Stack Overflow": Fault(35, "A thread used more stack than it has.", _STACK),
}


"""The debugger's name -> what it means."""

_BY_NAME: Final = {name.lower(): fault for name, fault in FAULTS.items()}
_UNKNOWN: Final = Fault(None, "The device reports an error that livedbg doesn't know.", MEMCHECK)


class Announced(NamedTuple):
    """An exception as the debugger announces it.

    Attributes:
        address: of the instruction; None where the device doesn't say it.
    """

    name: str
    address: int | None
    function: str
    file: str | None
    line: int | None


def fault_named(name: str) -> Fault:
    """What an exception means by the debugger's name of it, or by `CUDA_EXCEPTION_N`."""
    signal = _SIGNAL.search(name)
    if signal is not None:
        code = int(signal[1])
        return next((fault for fault in FAULTS.values() if fault.code == code), _UNKNOWN._replace(code=code))
    return _BY_NAME.get(name.strip().lower(), _UNKNOWN)


def title_of(name: str, fault: Fault) -> str:
    """`CUDA exception 14, Warp Illegal Address`."""
    return f"CUDA exception{f' {fault.code}' if fault.code is not None else ''}, {name}"


def announced_exception(text: str) -> Announced | None:
    """The exception that the debugger announces as it opens a core dump or attaches; None where there is none."""
    text = "\n".join(line[:_LONGEST] for line in text[:_MOST].split("\n"))
    named = _NAMED.search(text)
    name = clean_line(named[1], 100) if named else "Warp Assert" if _ASSERTED.search(text) else ""
    if not name:
        return None
    origin = _ORIGIN.search(text)
    if origin is None:
        return Announced(name, None, "", None, None)
    file, line = origin[3], origin[4]
    function = clean_line(origin[2] or "", 500).strip()
    return Announced(
        name, int(origin[1], 16), function, clean_line(file, 1000) if file else None, int(line) if line else None
    )
