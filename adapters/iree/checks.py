"""Checks of `livedbg doctor` for IREE: matching versions, Vulkan, its devices, age, clocks, load.

Vulkan's loader, drivers and layers are found by the files that the loader uses (LoaderDriverInterface.md and
LoaderLayerInterface.md of KhronosGroup/Vulkan-Loader).

Devices come from `iree-run-module --dump_devices=vulkan`. Its form was seen with the wheel 3.13.0 (`name: …`,
`api: 1.3.230`, `features: a=yes b=no`); older ones print the name only, in the comment above.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.differences.toolchain import hardware_of
from livedbg.linux.access import Capability, can_load
from livedbg.model.errors import LivedbgError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_SYSTEM: Final = ("/etc/vulkan", "/usr/local/etc/vulkan", "/usr/local/share/vulkan", "/usr/share/vulkan")
_LARGEST: Final = 1 << 20


class Driver(Struct, frozen=True):
    """One driver's manifest: its name, whether its library can be loaded, and its ctime (0 if unknown)."""

    name: str
    library: bool
    changed_s: float = 0.0


def loader_is_there() -> bool:
    """Return whether the loader's library can be loaded."""
    return can_load("libvulkan.so.1")


def drivers(environment: Mapping[str, str]) -> list[Driver]:
    """Return the loader's drivers: those of `VK_DRIVER_FILES` (or `VK_ICD_FILENAMES`), or the system's."""
    named = environment.get("VK_DRIVER_FILES") or environment.get("VK_ICD_FILENAMES")
    paths = _listed(named) if named else _manifests(environment, "icd.d")
    found = []
    for path in paths:
        library = _field(path, "ICD", "library_path")
        if library is not None:
            at = library if "/" not in library or library.startswith("/") else str(path.parent / library)
            found.append(Driver(clean_line(path.stem), can_load(at), _changed_s(path)))
    return found


def layers(environment: Mapping[str, str]) -> set[str]:
    """Return the names of the explicit layers that a program may request."""
    named = environment.get("VK_LAYER_PATH")
    folders = (
        [path for folder in named.split(os.pathsep) for path in sorted(Path(folder).glob("*.json"))] if named else []
    )
    names = (_field(path, "layer", "name") for path in folders or _manifests(environment, "explicit_layer.d"))
    return {name for name in names if name}


def _listed(value: str) -> Iterator[Path]:
    for word in filter(None, value.split(os.pathsep)):
        path = Path(word)
        yield from sorted(path.glob("*.json")) if path.is_dir() else [path]


def _manifests(environment: Mapping[str, str], folder: str) -> Iterator[Path]:
    home = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME", "/")) / ".local" / "share")
    for base in (*_SYSTEM, f"{home}/vulkan"):
        yield from sorted(Path(base, folder).glob("*.json"))


def _field(path: Path, part: str, name: str) -> str | None:
    """Return a text field of a manifest; None if it is invalid."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST))
        value = document[part][name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except OSError:
        return 0.0


COMPILERS: Final = ("iree-base-compiler", "iree-compiler")
RUNTIMES: Final = ("iree-base-runtime", "iree-runtime")
_PROGRAMS: Final = ("iree-compile", "iree-run-module")
_VALIDATION: Final = "VK_LAYER_KHRONOS_validation"
_GOVERNOR: Final = Path("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_AMD_LEVEL: Final = "sys/class/drm/card*/device/power_dpm_force_performance_level"
_BUSY: Final = 1.5
"""Runnable tasks a core from which on time-outs of GPU drivers and of IREE's tests may come of the load."""


def checks() -> list[Capability]:
    """Return the capabilities: versions, Vulkan, clocks and load; without IREE, nothing counts as missing."""
    found = versions((*COMPILERS, *RUNTIMES))
    there = bool(found) or any(shutil.which(program) for program in _PROGRAMS)
    runtime = any(name in found for name in RUNTIMES)
    return [
        wheels(found, there),
        vulkan(os.environ, there),
        *([devices(vulkan_devices)] if runtime and loader_is_there() else []),
        age(drivers(os.environ), Path("/proc/uptime").read_text(), time.time()),
        clocks(Path("/")),
        load(os.getloadavg()[0], cores()),
    ]


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the distributions installed next to livedbg."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def wheels(found: Mapping[str, str], there: bool) -> Capability:
    """Check that compiler and runtime have one version: a module of another version is refused, or runs wrong."""
    compiler = next((found[name] for name in COMPILERS if name in found), "")
    runtime = next((found[name] for name in RUNTIMES if name in found), "")
    enables = "livedbg diff-run; modules that their runtime accepts"
    if not found:
        value = "its programs are in PATH; no wheels beside livedbg" if there else "no IREE on this host"
        return Capability("IREE", True, value, enables)
    value = f"compiler {compiler or 'missing'}, runtime {runtime or 'missing'}"
    if compiler and runtime and compiler.split("+")[0] != runtime.split("+")[0]:
        fix = f"pip install iree-base-compiler=={runtime} iree-base-runtime=={runtime}"
        return Capability("IREE", False, f"{value}: they differ", enables, fix)
    both = bool(compiler and runtime)
    return Capability("IREE", both, value, enables, "" if both else "pip install iree-base-compiler iree-base-runtime")


def vulkan(environment: Mapping[str, str], there: bool) -> Capability:
    """Check the loader, its drivers, which the environment may replace, and the validation layer."""
    enables = "IREE's vulkan device, and the recipe for its validation layer"
    if not loader_is_there():
        return Capability(
            "Vulkan", not there, "no libvulkan.so.1", enables, "apt-get install libvulkan1" if there else ""
        )
    found = drivers(environment)
    working = [driver for driver in found if driver.library]
    value = ", ".join(f"{driver.name}{'' if driver.library else ' (its library is missing)'}" for driver in found)
    value = f"drivers: {value}" if value else "no driver"
    has_layer = _VALIDATION in layers(environment)
    value += f"; {_VALIDATION}" if has_layer else f"; no {_VALIDATION}"
    asked = filter(None, environment.get("VK_INSTANCE_LAYERS", "").split(os.pathsep))
    ignored = [clean_line(name, 80) for name in asked if name not in layers(environment)]
    packages = [] if working else ["mesa-vulkan-drivers"]
    packages += [] if has_layer else ["vulkan-validationlayers"]
    fixes = [f"apt-get install {' '.join(packages)}"] if packages else []
    if ignored:
        value += f"; VK_INSTANCE_LAYERS names {', '.join(ignored)}, which the loader does not find and ignores"
        fixes.append(f"unset VK_INSTANCE_LAYERS, or name {_VALIDATION}")
    return Capability("Vulkan", not fixes or not there, value, enables, "; ".join(fixes))


def devices(ask: Callable[[], str]) -> Capability:
    """Check the devices of IREE's Vulkan driver, which `ask` names: an installed driver may have none."""
    enables = "IREE's vulkan device"
    try:
        return Capability("Vulkan devices", True, ask(), enables)
    except LivedbgError as error:
        fix = "VK_LOADER_DEBUG=all iree-run-module --dump_devices=vulkan says why; vulkaninfo --summary"
        return Capability("Vulkan devices", False, clean_line(error.message, 200), enables, fix)


def age(found: Sequence[Driver], uptime: str, now_s: float) -> Capability:
    """Report when this host was booted (/proc/uptime) and its Vulkan drivers were changed, a possible cause."""
    up_s = float(uptime.split(maxsplit=1)[0])
    value = f"booted {_ago(up_s)}"
    newest = max(found, key=lambda one: one.changed_s, default=None)
    if newest is not None and newest.changed_s:
        after = ", after that" if newest.changed_s > now_s - up_s else ""
        value += f"; newest Vulkan driver: {newest.name}, changed {_ago(now_s - newest.changed_s)}{after}"
    return Capability("age", True, value, "to tell whether a fault came with an update, or goes away with a reboot")


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name} ago"
    return "a minute ago"


def clocks(root: Path) -> Capability:
    """Report whether clocks may change during a measurement, if the kernel shows it."""
    said = []
    try:
        said.append(f"CPU governor {(root / _GOVERNOR).read_text().strip()}")
    except OSError:
        pass  # a virtual machine has none
    for path in sorted(root.glob(_AMD_LEVEL)):
        try:
            said.append(f"{path.parts[-3]} performance level {path.read_text().strip()}")
        except OSError:
            continue
    return Capability("clocks", True, ", ".join(said) or "not readable here", "comparable times of kernels")


def load(average: float, cores: int) -> Capability:
    """Check whether this host is too busy for reliable time-outs, by its mean runnable tasks and usable cores."""
    value = f"{average:.1f} runnable tasks on {cores} cores"
    busy = average > _BUSY * cores
    fix = "wait until other jobs have ended, or allow longer time-outs" if busy else ""
    return Capability("load", not busy, value, "reliable time-outs", fix)


def cores() -> int:
    return len(os.sched_getaffinity(0))


_FIELD: Final = lazy_re(r"^(name|api|driver_info|features): (.{1,2000})$", re.MULTILINE)
_LACKS: Final = lazy_re(r"(\w{1,80})=no\b")
_ASK_S: Final = 60.0


def vulkan_devices() -> str:
    """Return the devices of IREE's Vulkan driver; raise LivedbgError if there is none or it can't be asked."""
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
    """Yield each device: `llvmpipe, Vulkan 1.3.230, Mesa 22.3.6, without shaderBFloat16Type`."""
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
