"""`livedbg values FILE`: a file with one tensor, shown, or compared with another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedbg.cli.tensor_output import WantedTensors, show_raw
from livedbg.model.errors import UsageError
from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.compare import Tolerance
    from livedbg.values.readers import Readers

__all__ = ["compare_file", "show_file"]

_DIFFERS = 12


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
    from livedbg.values.sentences import difference_json, difference_text
    from livedbg.values.tensor_files import load

    if not readers.holds_one_tensor(other):
        raise UsageError(
            f"{clean_line(path.name)} is one tensor, and {clean_line(other.name)} is no file with one.",
            f"--against OTHER{path.suffix}",
            "several",
        )
    found = compare(load(path, readers.formats), load(other, readers.formats), tolerance)
    name = clean_line(str(path))
    if as_json:
        head: dict[str, object] = {
            "tensor": name,
            "golden": clean_line(str(other)),
            "difference": difference_json(found),
        }
        click.echo(json_line({"schema": "livedbg.values/1", "tensor": head}))
    else:
        click.echo(f"{name}: {difference_text(found)}")
    return _DIFFERS if found.differs else 0
