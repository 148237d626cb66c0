"""The core names no system: what livedbg knows of one stands in its room under adapters/ (docs/architecture.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

NAMES: Final = re.compile(
    r"ascend|nvfuser|cuda|torch|inductor|iree|\bsimpler\b|pypto|nccl|nvml|\bc10\b|\brocm|hccl|\bcann\b|nvidia|davinci",
    re.IGNORECASE,
)


def test_the_core_names_no_system() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMES.search(line)
    }
    assert sorted(found) == []


def test_nothing_but_a_system_itself_asks_which_system_it_is() -> None:
    """Panels and analyses show what the model has of any system."""
    asks = re.compile(r"\.system\s*(?:==|!=|in|not in)\s*[\"'({\[]")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}" for path in _files() for line in _lines(path) if asks.search(line)
    ]
    assert found == []


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _files() -> Iterator[Path]:
    """The core's own files, those of the panels, and those of the adapters that belong to no system."""
    adapters = (path for path in (ROOT / "adapters").iterdir() if path.is_dir() and not (path / "system.py").exists())
    for folder in (ROOT / "livedbg", ROOT / "panels", *adapters):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not _behind_a_link(path):
                yield path


def _behind_a_link(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(ROOT / "livedbg"))
