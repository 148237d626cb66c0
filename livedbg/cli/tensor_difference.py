"""How `livedbg values` prints what a comparison of two tensors found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.compare import Difference

DIFFERS: Final = 12
"""The exit code where values differ."""


def show_difference(name: str, golden: Path, found: Difference, *, as_json: bool) -> int:
    """Print what was found of one tensor beside a file; the exit code.

    Args:
        name: of the tensor, sanitised.
        golden: the file that it was compared with.
        found: the outcome.
        as_json: as a line of JSON.
    """
    from livedbg.values.sentences import difference_json, difference_text

    if as_json:
        head: dict[str, object] = {
            "tensor": name,
            "golden": clean_line(str(golden)),
            "difference": difference_json(found),
        }
        click.echo(json_line({"schema": "livedbg.values/1", "tensor": head}))
    else:
        click.echo(f"{name}: {difference_text(found)}")
    return DIFFERS if found.differs else 0
