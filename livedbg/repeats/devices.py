"""One device for each run, by the variables that say which devices a process may use.

Systems declare their variables (`System.device_variables`): numbers or UUIDs, in a list whose order counts.

Invariants:
    devices.V1. A run gets no device that the user's own variables hide: a number counts within their lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livedbg.model.errors import UsageError
from livedbg.session.systems import systems

__all__ = ["check_visible", "visible"]


def visible(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give a run one device; {} for "", which is all.

    Args:
        device: its number, as the command would count the devices that it sees.
        environment: what the user has set. A list that is empty stays so.

    Raises:
        UsageError: a list there has not so many devices.
    """
    found: dict[str, str] = {}
    for variable in (one for system in systems() for one in system.device_variables) if device else ():
        name = variable.name
        if name not in environment:
            if variable.always:
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
