"""Writes the results, warnings and exit codes of commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from livedbg.analysis.verdict import INCONCLUSIVE, exit_code, is_blind
from livedbg.model.errors import SourceError
from livedbg.session.view import Update
from livedbg.text.sanitize import clean


def write(text: str, output: Path | None) -> None:
    """Write a text to a file that only its owner can read, or to standard output.

    Raises:
        SourceError: the file can't be written.
    """
    if output is None:
        click.echo(text)
        return
    from livedbg.text.private_files import write_private

    try:
        write_private(output, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise SourceError(f"{output} can't be written: {error.strerror}.", "choose another path with -o") from None


def warn(sentence: str, remedy: str = "") -> None:
    """Print a warning on standard error, sanitised: file names and messages of tools are data."""
    print(f"livedbg: {clean(sentence)}", file=sys.stderr)
    if remedy:
        print(f"  try: {clean(remedy)}", file=sys.stderr)


def warn_all(problems: Sequence[Exception]) -> None:
    """Warn of targets that are only partly visible."""
    for problem in problems:
        message, _, remedy = str(problem).partition("\n")
        warn(message, remedy)


def why_blind(update: Update) -> None:
    """Print, on standard error, which source can't be read, and the remedy: the reason for exit code 3."""
    for finding in update.diagnosis.findings.values():
        if is_blind(finding):
            warn(finding.sentence, finding.next[0] if finding.next else "")


TIME_LIMIT = 4
"""Exit code: a time limit ended it before anything was known."""


def code_of(update: Update, *, in_time: bool = True) -> int:
    """Return the exit code of a verdict; TIME_LIMIT for an inconclusive one that is not `in_time`."""
    code = exit_code(update.diagnosis.verdict, update.diagnosis.findings.values())
    return code if in_time or code != INCONCLUSIVE else TIME_LIMIT
