"""The devices of Vulkan as `iree-run-module --dump_devices=vulkan` prints them: name, API, driver, missing features.

The form was seen with the wheel 3.13.0 (`name: …`, `api: 1.3.230`, `features: a=yes b=no`); older ones print the name
only, in the comment above.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.adapters.iree.differences.toolchain import hardware_of
from livedbg.text.sanitize import clean_line

_FIELD: Final = re.compile(r"^(name|api|driver_info|features): (.{1,2000})$", re.MULTILINE)
_LACKS: Final = re.compile(r"(\w{1,80})=no\b")
_ASK_S: Final = 60.0


def vulkan_devices() -> str:
    """The devices that IREE's Vulkan driver finds.

    Raises:
        LivedbgError: there is none, or the driver can't be asked.
    """
    names = hardware_of(sys.executable, "vulkan")
    program = Path(sys.executable).with_name("iree-run-module")
    try:
        done = subprocess.run(
            [program, "--dump_devices=vulkan"],
            capture_output=True, text=True, errors="replace", check=False, timeout=_ASK_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return names
    return "; ".join(devices_told(done.stdout)) or names


def devices_told(text: str) -> Iterator[str]:
    """`llvmpipe, Vulkan 1.3.230, Mesa 22.3.6, without shaderBFloat16Type`: each device."""
    found: list[dict[str, str]] = []
    for name, value in _FIELD.findall(text):
        if name == "name":
            found.append({})
        if found:
            found[-1].setdefault(name, value)
    for one in found:
        lacks = _LACKS.findall(one.get("features", ""))
        words = [one["name"], f"Vulkan {one['api']}" if "api" in one else "", one.get("driver_info", "")]
        words += [f"without {' '.join(lacks)}" if lacks else ""]
        yield clean_line(", ".join(filter(None, words)), 400)
