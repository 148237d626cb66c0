"""What CANN's return codes mean for a run of the `simpler` runtime, and where the cause that they mask is logged.

Source: simpler src/common/platform/include/host/acl_error_names.h, .claude/rules/running-onboard.md ("507018 triage")
and docs/troubleshooting/device-error-codes.md (August 2026). The codes themselves: `cann_codes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from livedbg.adapters.ascend.cann_codes import KNOWN, CannCode

__all__ = ["CannCode", "cann_code", "device_log"]


_RANGES: Final = ((100_000, 199_999), (200_000, 299_999), (500_000, 599_999))
"""CANN's numbers: bad arguments and use, lack of something, failures inside (rt_error_codes.h)."""


def cann_code(number: int | None) -> CannCode | None:
    """The code of that number; one that we don't know where it can only be CANN's; None for other numbers."""
    if number is None:
        return None
    number = abs(number)
    known = KNOWN.get(number)
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
