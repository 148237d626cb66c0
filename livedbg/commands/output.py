"""Where a command writes its result."""

from __future__ import annotations

from pathlib import Path

import click

from livedbg.model.errors import SourceError
from livedbg.text.private_files import write_private


def write(text: str, output: Path | None) -> None:
    """Write a text to a file that only its owner can read, or to standard output.

    Raises:
        SourceError: the file can't be written.
    """
    if output is None:
        click.echo(text)
        return
    try:
        write_private(output, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise SourceError(f"{output} can't be written: {error.strerror}.", "choose another path with -o") from None
