"""What `livedbg doctor` checks for IREE, asked of the Python that the program uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.adapters.iree.checks import COMPILERS, RUNTIMES, clocks, cores, devices, load, versions, vulkan, wheels
from livedbg.adapters.iree.differences.toolchain import hardware_of

__all__ = ["environment_lines"]

_CHECK_S: Final = 60.0
_ASK: Final = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def environment_lines(python: str, device: str, *, known: bool) -> Iterator[tuple[str, str]]:
    """Versions, what the device needs, and what makes times unreliable.

    Args:
        python: of the program.
        device: that it uses.
        known: it is the program's, not ours.
    """
    facts = [wheels(_versions(python), True), load(os.getloadavg()[0], cores())]
    if device.startswith("vulkan"):
        facts += [vulkan(os.environ, True), devices(lambda: hardware_of(python, device))]
    facts += [one for one in (clocks(Path("/")),) if not one.value.startswith("not readable")]
    for fact in facts:
        fix = f". To fix it: {fact.remedy}" if fact.remedy else ""
        if fact.name != "load" or not fact.ok:
            where = " (of the wheels beside livedbg: CMD is no program of a wheel)" if fact.name == "IREE" else ""
            yield "environment", f"{fact.name}: {fact.value}{'' if known else where}{fix}"


def _versions(python: str) -> dict[str, str]:
    names = (*COMPILERS, *RUNTIMES)
    if python == sys.executable:
        return versions(names)
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *names], capture_output=True, text=True, check=True, timeout=_CHECK_S
        )
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found
