"""The standard streams of a command line, whatever they are, and what commands write there.

A stream may be closed, full, read by nobody, of any character set.

Invariants:
    streams.O1. No text that is printed sends a control character or an escape sequence to the terminal: what a name, an
        argument or an error message has of them is cleaned (livedbg.text.sanitize) as the last step. What `launch`
        relays of its child goes by `buffer`, as bytes; the terminal app draws past it (livedbg.text.sanitize).
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from livedbg.analysis.verdict import INCONCLUSIVE, exit_code, is_blind
from livedbg.model.errors import SourceError
from livedbg.session.view import Update
from livedbg.text.sanitize import clean, clean_line, clean_what_is_written


def prepare_streams() -> None:
    """Replace closed streams, and make every character printable.

    Without a replacement the next file that is opened would get the number of the closed stream, and what is printed
    would land in it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _fill(number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if type(stream) is io.TextIOWrapper:  # not one that a test reads
                clean_what_is_written(stream)


def drop_output() -> None:
    """Discard pending output: nobody reads it, and Python would complain at its end."""
    for stream in (sys.stdout, sys.stderr):
        if not _works(stream):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


def is_unread(stream: TextIO) -> bool:
    """Return whether nobody reads the stream any more: the other end of the pipe or socket is closed."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file behind it
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _works(stream: TextIO) -> bool:
    with contextlib.suppress(OSError):
        stream.flush()
        return True
    return False


def _fill(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)


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


def note(line: str) -> None:
    """Print one line on standard error, sanitised: a newline in what it quotes can't begin a line of ours."""
    warn(clean_line(line))


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
