"""`livedbg values FILE`: a file with one tensor, shown, or compared with another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from livedbg.cli.tensor_difference import show_difference
from livedbg.cli.tensor_output import WantedTensors, show_raw
from livedbg.model.errors import UsageError
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.compare import Tolerance
    from livedbg.values.readers import Readers

__all__ = ["compare_file", "show_file"]


def show_file(readers: Readers, path: Path, want: WantedTensors) -> int:
    """Show or export its tensor; the exit code."""
    from livedbg.values.tensor_files import load

    return show_raw(path, load(path, readers.formats), want)


def compare_file(readers: Readers, path: Path, other: Path, tolerance: Tolerance, *, as_json: bool) -> int:
    """Compare its tensor with that of another file; the exit code, 12 where they differ.

    Raises:
        UsageError: the other is no such file.
    """
    from livedbg.values.compare import compare
    from livedbg.values.tensor_files import load

    if not readers.holds_one_tensor(other):
        raise UsageError(
            f"{clean_line(path.name)} is one tensor, and {clean_line(other.name)} is no file with one.",
            f"--against OTHER{path.suffix}",
            "several",
        )
    found = compare(load(path, readers.formats), load(other, readers.formats), tolerance)
    return show_difference(clean_line(str(path)), other, found, as_json=as_json)
