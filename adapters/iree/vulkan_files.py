"""Vulkan's loader, drivers and layers, by the files through which the loader finds them.

Source: the loader's documents LoaderDriverInterface.md and LoaderLayerInterface.md (KhronosGroup/Vulkan-Loader).
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.text.sanitize import clean_line

__all__ = ["Driver", "drivers", "layers", "loader_is_there"]

_SYSTEM: Final = ("/etc/vulkan", "/usr/local/etc/vulkan", "/usr/local/share/vulkan", "/usr/share/vulkan")
_LARGEST: Final = 1 << 20


class Driver(Struct, frozen=True):
    """One driver's manifest.

    Attributes:
        name: of its file, without suffix.
        library: its library can be loaded.
        changed_s: when the manifest was put there, as its inode says; 0 if unknown.
    """

    name: str
    library: bool
    changed_s: float = 0.0


def loader_is_there() -> bool:
    """Whether the loader's library can be loaded."""
    return _loads("libvulkan.so.1")


def drivers(environment: Mapping[str, str]) -> list[Driver]:
    """The drivers that the loader would try.

    Args:
        environment: `VK_DRIVER_FILES` (or `VK_ICD_FILENAMES`) replaces the system's.
    """
    named = environment.get("VK_DRIVER_FILES") or environment.get("VK_ICD_FILENAMES")
    paths = _listed(named) if named else _manifests(environment, "icd.d")
    found = []
    for path in paths:
        library = _field(path, "ICD", "library_path")
        if library is not None:
            at = library if "/" not in library or library.startswith("/") else str(path.parent / library)
            found.append(Driver(clean_line(path.stem), _loads(at), _changed_s(path)))
    return found


def layers(environment: Mapping[str, str]) -> set[str]:
    """Names of the explicit layers that a program may ask for."""
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
    """One text of a manifest; None where the file is none."""
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


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
