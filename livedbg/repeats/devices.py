"""Gives each run one device, by the variables that limit the devices of a process.

Systems declare their variables (`System.device_variables`): numbers or UUIDs, in a list whose order counts.

Invariants:
    devices.V1. A run gets no device that the user's own variables hide: a number is an index into their lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livedbg.model.errors import UsageError
from livedbg.session.systems import systems
from livedbg.text.wording import many


def visible(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give a run one device; {} for all devices ("").

    Args:
        device: its number among the devices that the command sees.
        environment: the user's variables. An empty list stays empty.

    Raises:
        UsageError: a list has fewer devices.
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
                f"--gpus: no device {device}: {name}={environment[name]} lists {many(len(allowed), 'device')}.",
                f"--gpus 0-{len(allowed) - 1}, or unset {name}",
                "usage",
            )
        if allowed:
            found[name] = allowed[int(device)]
    return found


def check_visible(devices: Iterable[str], environment: Mapping[str, str]) -> None:
    """Check that such devices exist in the user's lists.

    Raises:
        UsageError: see `visible`.
    """
    for device in devices:
        visible(device, environment)
