"""The standard streams of a command line, whatever they are: closed, full, read by nobody, of any character set.

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
from typing import TextIO

from livedbg.text.sanitize import clean_what_is_written


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
