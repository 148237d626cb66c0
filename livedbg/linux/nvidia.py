"""What of NVIDIA's is on this box: facts for `livedbg doctor`."""

from __future__ import annotations

import ctypes
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from livedbg.linux.capabilities import Capability

__all__ = ["nvidia_facts"]

_TOOLS: Final = ("cuda-gdb", "compute-sanitizer", "nsys", "ncu")
_ROOTS: Final = (Path("/usr/local"), Path("/opt"))  # of toolkits: cuda, cuda-12.9, …
_HOMES: Final = ("CUDA_HOME", "CUDA_PATH")
_DRIVER: Final = Path("/proc/driver/nvidia")


def nvidia_facts() -> list[Capability]:
    """NVML and CUDA's tools; where there is no NVIDIA driver, nothing is missing."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        library = True
    except OSError:
        library = False
    needed = library or _DRIVER.exists()
    return [_nvml(library, needed), _tools(needed)]


def _nvml(library: bool, needed: bool) -> Capability:
    enables = "utilisation, memory, clocks and errors of GPUs"
    if not library:
        if needed:
            return Capability("NVML", False, "libnvidia-ml.so.1 missing", enables, "install the driver's NVML library")
        return Capability("NVML", True, "no NVIDIA driver on this box", enables)
    try:
        bindings = version("nvidia-ml-py")
    except PackageNotFoundError:
        return Capability("NVML", False, "nvidia-ml-py is not installed", enables, "pip install nvidia-ml-py")
    return Capability("NVML", True, f"libnvidia-ml.so.1, nvidia-ml-py {bindings}", enables)


def _tools(needed: bool) -> Capability:
    found = {tool: _path_of(tool) for tool in _TOOLS}
    there = [f"{tool} ({path})" for tool, path in found.items() if path]
    missing = [tool for tool, path in found.items() if not path]
    value = ", ".join(there) + ("; " if there and missing else "") + (f"no {', '.join(missing)}" if missing else "")
    return Capability(
        "CUDA tools",
        not missing or not needed,
        value,
        "device state (cuda-gdb), the recipes compute-sanitizer, nsys and ncu",
        "" if not missing or not needed else "install the CUDA toolkit, or put its bin folder on the PATH",
    )


def _path_of(tool: str) -> str | None:
    homes = [Path(os.environ[name]) for name in _HOMES if os.environ.get(name)]
    homes += [home for root in _ROOTS for home in sorted(root.glob("cuda*"), reverse=True)]
    folders = [str(home / part) for home in homes for part in ("bin", "compute-sanitizer")]
    return shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(folders or ["/nonexistent"]))
