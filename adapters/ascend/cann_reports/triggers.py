"""What stands in every record that says something of a failure on an NPU, and hardly in any other.

A record with one of these counts as understood, so none of them may be a word of anybody's error lines.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from livedbg.adapters.ascend.cann_codes import KNOWN

__all__ = ["EXACT", "TRIGGERS"]

_TORCH: Final = (
    *(f"{layer} function error: " for layer in ("NPU", "OPS", "HCCL", "DIST", "PTA", "GRAPH", "PROF")),
    *(", RankID:", "Warning: NPU warning", "NPU out of memory", "HCCL error in", "call aclnn", "for this inner error"),
    *("ACL stream synchronize failed", "NPU error code is:", "core execution is abnormal", "internal task times out"),
    *("Rectify the fault based on", "start the device. "),
)
_CANN: Final = (
    *("Inner Error!", "TraceBack (most recent call", "The error from device(", "during AICPU execution", "errorStr: "),
    *("kernel execute failed, device_id", "fault kernel_name=", "fault op_name=", "[AIC_INFO]", "[FUNC:", "[drv api] "),
    *("Failed to open device, retCode", "tsd client wait", "rtMalloc fail", "bytes of NPU memory", "runtime result = "),
    *("launch failed for ", "Kernel Run failed. opType", "Kernel task happen error", "runtime initialization failed"),
    *("hccl fftsplus task timeout", "An error CQE occurred", "] lost heartbeat"),
    *(f"[ERROR] {module}(" for module in ("RUNTIME", "HCCL", "HCCP", "GE", "FE", "ASCENDCL", "TDT", "DRV", "TSD")),
    *(f"[ERROR] {module}(" for module in ("TEFUSION", "IDEDD", "DEVICE", "KERNEL", "PROFILING", "ATB", "NNOP", "OP")),
)
_HCCL: Final = (
    *("Notify register", "Cluster Exception Location", "Heartbeat Lost", "Getting socket times out"),
    *("socket establish timeout", "createLink para", "specific port["),
)
_MINDSPORE: Final = (
    *("Launch kernel failed", "Call ascend api", "Task fail infos", "Dump node (", "Run task for graph"),
    *("Ascend error occurred", "memory isn't enough and alloc"),
)
_BLOCKS: Final = (
    *("EE1001", "EE1002", "EE1003", "EE1004", "EE4001", "EE8888", "EE9999", "EH9999", "EK9999", "EL9999", "EZ9999"),
    *("EZ1001", "EZ3002", "EZ3003", "E40021", "E69999", "EI9999", "EJ9999", "E19999", "E39999", "E89999", "E30006"),
    *(f"EI00{number:02}" for number in range(1, 20)),
    *(f"E{module}000{number}" for module in "HJKL" for number in range(1, 10)),
)
"""Identifiers of CANN's messages (module and number; 9999: not described)."""
_CODES: Final = (
    *(str(number) for number in KNOWN if number > 500_000),
    *(
        f"{word}{number}"
        for word in ("error code is ", "error code:", "failed: ")
        for number in KNOWN
        if number < 500_000
    ),
    *(
        f"error code is {number}"
        for number in (
            "100000",
            "145000",
            "500000",
            "500002",
            "161001",
            "161002",
            "361001",
            "561000",
            "561002",
            "561003",
            "561103",
        )
    ),
)

_BLOCK: Final = b"[PID: "
TRIGGERS: Final = (_BLOCK, *(word.encode() for word in (*_TORCH, *_CANN, *_HCCL, *_MINDSPORE, *_BLOCKS, *_CODES)))
"""Byte strings, as `LogDecoder.triggers`."""
EXACT: Final = MappingProxyType({_BLOCK: re.compile(rb"(?<=\d: )\[PID: \d")})
"""As `LogDecoder.exact`: a message of any module, `E10007: [PID: 441] …`."""
