"""Checks of `livedbg doctor` for NVIDIA's driver and tools; which processes use a GPU.

CUDA's tools are searched on the PATH, in the toolkit named by the environment, and in installed ones. Of several
versions side by side (`/usr/local/cuda-12.9`, …) the target of `/usr/local/cuda` is preferred, else the newest (CUDA
Installation Guide for Linux, "Post-installation Actions"). Nsight Systems and Compute may be installed separately, each
version in a folder of /opt/nvidia (their installation guides).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from livedbg.linux.access import Capability, can_load
from livedbg.linux.descriptors import fd_links

_HOMES: Final = ("CUDA_HOME", "CUDA_PATH")
_ROOTS: Final = (Path("/usr/local"), Path("/opt"))
_PARTS: Final = ("bin", "compute-sanitizer")
_ALONE: Final = (("nvidia/nsight-systems*", "bin"), ("nvidia/nsight-compute*", "."))


def find_tool(name: str) -> str | None:
    """Return the path of a tool, or None."""
    folders = os.pathsep.join(map(str, _folders()))
    return shutil.which(name) or (shutil.which(name, path=folders) if folders else None)


def _folders() -> Iterator[Path]:
    yield from (home / part for home in _toolkits() for part in _PARTS)
    for root in _ROOTS:
        for place, part in _ALONE:
            for home in sorted(root.glob(place)):
                yield from (version / part for version in (home, *sorted(home.glob("[0-9]*"), key=_rank)))


def _toolkits() -> Iterator[Path]:
    yield from (Path(os.environ[name]) for name in _HOMES if os.environ.get(name))
    for root in _ROOTS:
        yield from sorted(root.glob("cuda*"), key=_rank)


def _rank(home: Path) -> tuple[bool, list[int], str]:
    """Sort `cuda` first, then the newest version."""
    return home.name != "cuda", [-int(number[:9]) for number in re.findall(r"\d+", home.name)], home.name


_TOOLS: Final = ("cuda-gdb", "compute-sanitizer", "nsys", "ncu")
_DRIVER: Final = Path("/proc/driver/nvidia")


def uses_gpu(pids: Iterable[int]) -> bool:
    """Return whether one of these processes has an NVIDIA GPU open."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look into
            if any(link.startswith("/dev/nvidia") for link in fd_links(pid).values()):
                return True
    return False


def checks() -> list[Capability]:
    """Return the capabilities: NVML and CUDA's tools; without an NVIDIA driver, nothing counts as missing."""
    library = can_load("libnvidia-ml.so.1")
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
