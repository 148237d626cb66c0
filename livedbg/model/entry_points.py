"""The entry points that installed packages register (packaging.python.org, Entry points specification).

They are what `importlib.metadata` gives for folders: its import and its search cost a `report` a twentieth of its time.
Packages in zip files are not searched.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_METADATA: Final = (".dist-info", ".egg-info")


class EntryPoint(Struct, frozen=True):
    """An object that a package registers under a name."""

    name: str
    module: str
    attribute: str
    package: str

    def load(self) -> Any:
        """Return the object. Raises whatever the import of its module raises."""
        return attrgetter(self.attribute)(import_module(self.module))


def entry_points(group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of a group. Of a package that is installed twice the first in `sys.path` counts."""
    seen = set()
    for folder in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError):  # as a rule it isn't there
            names = os.listdir(folder or ".")  # noqa: PTH208 - a path for each of hundreds of files takes longer
            for name in sorted(name for name in names if name.endswith(_METADATA)):
                package = name.removesuffix(".dist-info").removesuffix(".egg-info").partition("-")[0]
                if package not in seen:
                    seen.add(package)
                    yield from _entry_points(Path(folder, name), group)


def _entry_points(metadata: Path, group: str) -> Iterator[EntryPoint]:
    section = ""
    for line in map(str.strip, _lines(metadata / "entry_points.txt")):
        if line.startswith("["):
            section = line[1:].partition("]")[0].strip()
        elif section == group and not line.startswith("#"):
            name, equals, value = line.partition("=")
            module, colon, attribute = value.partition("[")[0].partition(":")  # `[...]`: extras
            if equals and colon:
                yield EntryPoint(name.strip(), module.strip(), attribute.strip(), _package(metadata))


def _package(metadata: Path) -> str:
    """Return the name of a package as it is written; that of a folder has `_` for `-`."""
    lines = chain(_lines(metadata / "METADATA"), _lines(metadata / "PKG-INFO"))
    return next((line.removeprefix("Name:").strip() for line in lines if line.startswith("Name:")), "")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it registers nothing
        return []
