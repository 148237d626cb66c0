"""What CANN's return codes mean for a run of the `simpler` runtime, and where the cause that they mask is logged.

Source: simpler src/common/platform/include/host/acl_error_names.h, .claude/rules/running-onboard.md ("507018 triage")
and docs/troubleshooting/device-error-codes.md (August 2026), names after CANN's acl/error_codes/rt_error_codes.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

__all__ = ["CannCode", "cann_code", "device_log"]


class CannCode(Struct, frozen=True):
    """One return code of CANN's runtime.

    Attributes:
        meaning: half a sentence, what it says.
        mask: it only says that something failed: the cause is written elsewhere.
        advice: what to do about it; "" for a mask (`device_log` says where to look).
    """

    number: int
    name: str
    meaning: str
    mask: bool = True
    advice: str = ""


_KNOWN: Final = (
    CannCode(107022, "ACL_ERROR_RT_DEVICE_TASK_ABORT", "the task was aborted, mostly because another one failed first"),
    CannCode(
        207001,
        "ACL_ERROR_RT_MEMORY_ALLOCATION",
        "memory on the device could not be had",
        mask=False,
        advice="use less memory on the device, or look (npu-smi info) who else holds memory there",
    ),
    CannCode(507000, "ACL_ERROR_RT_INTERNAL_ERROR", "an internal error; on a5 an AICPU time-out comes as this"),
    CannCode(507014, "ACL_ERROR_RT_AICORE_TIMEOUT", "a kernel on an AI core ran longer than its limit"),
    CannCode(
        507015,
        "ACL_ERROR_RT_AICORE_EXCEPTION",
        "a kernel on an AI core failed",
        mask=False,
        advice="find the kernel that failed in the device log (instruction error, errcode, fault kernel_name)",
    ),
    CannCode(507017, "ACL_ERROR_RT_AICPU_TIMEOUT", "the AICPU's task ran longer than its limit"),
    CannCode(507018, "ACL_ERROR_RT_AICPU_EXCEPTION", "the AICPU's task failed, for one of several causes"),
    CannCode(507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "the host waited for the device and had no answer in time"),
    CannCode(
        507899,
        "ACL_ERROR_RT_DRV_INTERNAL_ERROR",
        "the driver refuses every call since an earlier failure on that device",
    ),
)
_BY_NUMBER: Final = {code.number: code for code in _KNOWN}
_RANGES: Final = ((100_000, 199_999), (200_000, 299_999), (500_000, 599_999))
"""CANN's numbers: bad arguments and use, lack of something, failures inside (rt_error_codes.h)."""


def cann_code(number: int | None) -> CannCode | None:
    """The code of that number; one that we don't know where it can only be CANN's; None for other numbers."""
    if number is None:
        return None
    number = abs(number)
    known = _BY_NUMBER.get(number)
    if known is None and any(first <= number <= last for first, last in _RANGES):
        return CannCode(number, "a code of CANN's that livedbg doesn't know", "something failed below the runtime")
    return known


def device_log(environment: Mapping[str, str], pid: int | None = None, device: int | None = None) -> str:
    """Where the device's log lies: CANN's rule, with what is known of the process.

    Args:
        environment: of the process; empty where there is none.
        pid: of the process.
        device: number of the device.
    """
    root = environment.get("ASCEND_PROCESS_LOG_PATH") or (
        f"{environment['ASCEND_WORK_PATH']}/log" if environment.get("ASCEND_WORK_PATH") else ""
    )
    folder = f"device-{'ID' if device is None else device}"
    name = f"device-{'PID' if pid is None else pid}_*.log"
    if root:
        return f"{root}/debug/{folder}/{name}"
    return f"$ASCEND_PROCESS_LOG_PATH/debug/{folder}/{name} (where that isn't set: ~/ascend/log/debug/{folder}/)"
