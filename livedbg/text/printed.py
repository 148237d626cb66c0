"""Cleans what is printed to a stream as the last step, and lets the terminal app draw on the same stream."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator

from livedbg.text.sanitize import clean


def clean_what_is_written(stream: io.TextIOWrapper) -> None:
    """Clean all text that is written to a stream from now on; bytes go by its `buffer`."""
    written = stream.write
    setattr(stream, "write", lambda text: written(clean(text)))  # noqa: B010 - a wrapper would lose the identity


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Leave the standard streams as they are in this block: the terminal app sends its own escape sequences."""
    streams = [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
    cleaned = [(stream, vars(stream).pop("write")) for stream in streams if "write" in getattr(stream, "__dict__", {})]
    try:
        yield
    finally:
        for stream, write in cleaned:
            vars(stream)["write"] = write
