"""Facts about NVIDIA's driver and tools on this host, for `livedbg doctor`; which processes use a GPU."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.toolkits import find_tool
from livedbg.linux.capabilities import Capability
from livedbg.linux.descriptors import fd_links

_TOOLS: Final = ("cuda-gdb", "compute-sanitizer", "nsys", "ncu")
_DRIVER: Final = Path("/proc/driver/nvidia")


def uses_gpu(pids: Iterable[int]) -> bool:
    """Whether one of these processes has a GPU of NVIDIA's open."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look into
            if any(link.startswith("/dev/nvidia") for link in fd_links(pid).values()):
                return True
    return False


def checks() -> list[Capability]:
    """NVML and CUDA's tools; where there is no NVIDIA driver, nothing is missing."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        library = True
    except OSError:
        library = False
    needed = library or _DRIVER.exists()
    return [_nvml(library, needed), _tools(needed)]


def _nvml(library: bool, needed: bool) -> Capability:
    enables = "GPU utilisation, memory, clocks and errors"
    if not library:
        if needed:
            return Capability("NVML", False, "libnvidia-ml.so.1 missing", enables, "install the driver's NVML library")
        return Capability("NVML", True, "no NVIDIA driver on this host", enables)
    try:
        bindings = version("nvidia-ml-py")
    except PackageNotFoundError:
        return Capability("NVML", False, "nvidia-ml-py is not installed", enables, "pip install nvidia-ml-py")
    return Capability("NVML", True, f"libnvidia-ml.so.1, nvidia-ml-py {bindings}", enables)


def _tools(needed: bool) -> Capability:
    found = {tool: find_tool(tool) for tool in _TOOLS}
    there = [f"{tool} ({path})" for tool, path in found.items() if path]
    missing = [tool for tool, path in found.items() if not path]
    value = ", ".join(there) + ("; " if there and missing else "") + (f"no {', '.join(missing)}" if missing else "")
    return Capability(
        "CUDA tools",
        not missing or not needed,
        value,
        "device state (cuda-gdb), the recipes compute-sanitizer, nsys and ncu",
        "" if not missing or not needed else "install the CUDA toolkit, or add its bin directory to PATH",
    )
