"""One device for each run, by the variables that say which devices a process may use.

Sources: CUDA C++ Programming Guide, "CUDA Environment Variables" (CUDA_VISIBLE_DEVICES: numbers or UUIDs, in a list
whose order counts; HIP reads it too); ROCm documentation, "GPU isolation techniques" (HIP_VISIBLE_DEVICES goes before
it); CANN documentation, environment variables (ASCEND_RT_VISIBLE_DEVICES).

Invariants:
    V1. A run gets no device that the user's own variables hide: a number counts within their lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from livedbg.model.errors import UsageError

__all__ = ["check_visible", "visible"]

_ALWAYS: Final = ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
_WHERE_SET: Final = ("HIP_VISIBLE_DEVICES",)  # else HIP reads CUDA's


def visible(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give a run one device; {} for "", which is all.

    Args:
        device: its number, as the command would count the devices that it sees.
        environment: what the user has set. A list that is empty stays so.

    Raises:
        UsageError: a list there has not so many devices.
    """
    found: dict[str, str] = {}
    for name in (*_ALWAYS, *_WHERE_SET) if device else ():
        if name not in environment:
            if name in _ALWAYS:
                found[name] = device
            continue
        allowed = [word.strip() for word in environment[name].split(",") if word.strip()]
        if allowed and int(device) >= len(allowed):
            raise UsageError(
                f"--gpus: there is no device {device}: {name}={environment[name]} allows {len(allowed)}.",
                f"--gpus 0-{len(allowed) - 1}, or unset {name}",
                "usage",
            )
        if allowed:
            found[name] = allowed[int(device)]
    return found


def check_visible(devices: Iterable[str], environment: Mapping[str, str]) -> None:
    """See that there may be such devices.

    Raises:
        UsageError: see `visible`.
    """
    for device in devices:
        visible(device, environment)
