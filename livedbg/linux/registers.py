"""The registers and the ABI of this machine, for copying, sampling and unwinding: the only place that chooses.

There is x86-64 so far. A second machine is a module like livedbg.linux.x86_64 and a choice here.
"""

from __future__ import annotations

from livedbg.linux.x86_64 import (
    ARGUMENTS,
    CALL_ARGUMENTS,
    CALL_NUMBER,
    CONSTANTS,
    COUNT,
    ELF_MACHINE,
    FRAME_POINTER,
    FRAME_POINTER_NAME,
    GENERAL,
    KEPT,
    MACHINE,
    PC,
    PERF_NUMBERS,
    PRSTATUS_REGISTERS,
    PRSTATUS_SIZE,
    RED_ZONE,
    SP,
    USER_COUNT,
)

__all__ = [
    "ARGUMENTS",
    "CALL_ARGUMENTS",
    "CALL_NUMBER",
    "CONSTANTS",
    "COUNT",
    "ELF_MACHINE",
    "FRAME_POINTER",
    "FRAME_POINTER_NAME",
    "GENERAL",
    "KEPT",
    "MACHINE",
    "PC",
    "PERF_NUMBERS",
    "PRSTATUS_REGISTERS",
    "PRSTATUS_SIZE",
    "RED_ZONE",
    "SP",
    "USER_COUNT",
]
