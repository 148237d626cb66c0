"""The core names no system: what livedbg knows of one stands in its room under adapters/ (docs/architecture.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

NAMES: Final = re.compile(r"ascend|nvfuser|cuda|torch|inductor|iree|\bsimpler\b|pypto|nccl|nvml", re.IGNORECASE)

NAMED: Final = frozenset(
    {
        # commands of single systems, and their lines in the table of commands
        "livedbg/cli/catch.py",
        "livedbg/cli/device.py",
        "livedbg/cli/launches.py",
        "livedbg/cli/repro.py",
        "livedbg/cli/table.py",
        "livedbg/cli/watch.py",
        # `torchrun:PID` as a target
        "livedbg/cli/group.py",
        "livedbg/cli/report.py",
        "livedbg/session/targets.py",
        # exceptions of a device's debugger
        "livedbg/analysis/devices.py",
        # catch presets
        "livedbg/model/catchpoints.py",
        "panels/catchpoints.py",
        # generic recipes that say for which systems they are, and what to try after a comparison
        "livedbg/recipes/data/asan-clang.toml",
        "livedbg/recipes/data/asan-gcc.toml",
        "livedbg/recipes/data/cpu-profile.toml",
        "livedbg/recipes/data/heap-profile.toml",
        "livedbg/repeats/compare.py",
        "livedbg/repeats/data/markers.toml",
        # names of files that are no logs
        "livedbg/logs/paths.py",
        # files of tensors, and the layouts that their readers follow
        "livedbg/values/compare.py",
        "livedbg/values/dtypes.py",
        "livedbg/values/tensor_files.py",
        "panels/values.py",
    }
)
"""Files that still name one. Take out what is clean; nothing comes in."""


def test_the_core_names_no_system() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files()
        if str(path.relative_to(ROOT)) not in NAMED
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMES.search(line)
    }
    assert sorted(found) == []


def _files() -> Iterator[Path]:
    """The core's own files, and those of the panels: not what is behind the links of the package."""
    for folder in (ROOT / "livedbg", ROOT / "panels"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not _behind_a_link(path):
                yield path


def _behind_a_link(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(ROOT / "livedbg"))
