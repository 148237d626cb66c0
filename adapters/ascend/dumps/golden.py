"""Golden data: the tensors that pypto-lib's harness saved, `data/in/NAME.pt` and `data/out/NAME.pt`.

Source: pypto-lib, golden/runner.py and docs/run-and-validate/save-and-replay.md: one tensor a file; what is in both
folders is an output with an initial value. `.npy` files are read as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.text.sanitize import clean_line
from livedbg.values.readers import GoldenFile

__all__ = ["golden_files"]

_SUFFIXES: Final = (".pt", ".npy")
_FILES: Final = 10_000


def golden_files(folder: Path) -> list[GoldenFile]:
    """The golden data in a folder that has `in/` and `out/`; empty where there is none."""
    return [
        GoldenFile(clean_line(path.stem, 80), side == "out", path)
        for side in ("in", "out")
        for path in target_files.matching(folder / side, "*")[:_FILES]
        if path.suffix in _SUFFIXES and target_files.is_regular(path)
    ]
