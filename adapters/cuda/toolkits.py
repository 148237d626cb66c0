"""Where CUDA's tools are: on the PATH, in the toolkit that the environment names, in those that are installed.

Of several versions side by side (`/usr/local/cuda-12.9`, …) the one that `/usr/local/cuda` leads to counts, else the
newest (CUDA Installation Guide for Linux, "Post-installation Actions"). Nsight Systems and Compute may be installed on
their own, each version in a folder of /opt/nvidia (their installation guides).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_HOMES: Final = ("CUDA_HOME", "CUDA_PATH")
_ROOTS: Final = (Path("/usr/local"), Path("/opt"))
_PARTS: Final = ("bin", "compute-sanitizer")
_ALONE: Final = (("nvidia/nsight-systems*", "bin"), ("nvidia/nsight-compute*", "."))


def find_tool(name: str) -> str | None:
    """The path of a tool; None where there is none."""
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
    """`cuda` first, then by version, the newest first."""
    return home.name != "cuda", [-int(number[:9]) for number in re.findall(r"\d+", home.name)], home.name
