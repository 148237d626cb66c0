"""Sanitising of a target's strings before a terminal, a file or a report gets them.

Log lines, thread names, argv and error texts are data of somebody else. A terminal would obey escape sequences in them
(set the title, write the clipboard), and bidirectional controls would reorder the text. Rich and Textual let most of
that through.

Invariants:
    sanitize.Z1. `clean(s)` holds no C0 control but newline and tab, no DEL, no C1 control, no escape sequence, no
        bidirectional, invisible or line-separator control, no lone surrogate.
    sanitize.Z2. `clean` is idempotent, and the identity on printable ASCII.
    sanitize.Z3. Text around a hostile sequence is kept; of an unterminated sequence only the introducer is replaced,
        and no sequence reaches beyond its own line.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator

from livedbg.text.patterns import lazy_re

_SEQUENCE = lazy_re(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"  # OSC
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x80-\x9f\n]*(?:\x1b\\|\x9c)"  # DCS SOS PM APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]+[0-~]"  # nF: character sets, 7-bit controls, …
    r"|\x1b[0-OQ-WYZ\\`-~]"  # Fp, Fe without the string introducers, Fs
)
_CONTROL = lazy_re(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 32:
        return chr(0x2400 + code)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that isn't UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return "\u2421" if code == 127 else "\ufffd"


def is_clean(text: str) -> bool:
    """Return whether `clean` returns the text itself."""
    # no control, format or surrogate code point (the usual case), or only newlines and tabs
    return text.isprintable() or _CONTROL.search(text) is None


def clean(text: str) -> str:
    r"""Drop escape sequences from `text` and make controls visible; newlines and tabs stay.

    A line that redraws itself with carriage returns becomes its last state. A byte of a file name that isn't UTF-8
    becomes `\xff`, as in the shell, so that two such names stay two.
    """
    if is_clean(text):
        return text
    text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(_last_redraw(line) for line in text.split("\n"))
    return _CONTROL.sub(_visible, text)


def _last_redraw(line: str) -> str:
    """Return the last state of a progress bar that redraws itself with carriage returns."""
    if "\r" not in line:
        return line
    shown = [part for part in line.split("\r") if part and not part.isspace()]
    return shown[-1] if shown else ""


def clean_line(text: str, limit: int = 4096) -> str:
    """Return `clean` text on one line: newlines and tabs become spaces; cut at `limit` characters."""
    if len(text) <= limit and text.isprintable():  # the usual case
        return text
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = clean(text)
    return text.replace("\n", " ").replace("\t", " ") if not text.isprintable() else text


def clean_bytes(data: bytes) -> str:
    """Return bytes of a target as clean text; invalid UTF-8 becomes U+FFFD."""
    return clean(data.decode("utf-8", "replace"))


def clean_what_is_written(stream: io.TextIOWrapper) -> None:
    """Clean all text written to a stream from now on; bytes go to its `buffer`."""
    written = stream.write
    setattr(stream, "write", lambda text: written(clean(text)))  # noqa: B010 - a wrapper would lose the identity


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Leave the standard streams uncleaned in this block: the terminal app sends its own escape sequences."""
    streams = [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
    cleaned = [(stream, vars(stream).pop("write")) for stream in streams if "write" in getattr(stream, "__dict__", {})]
    try:
        yield
    finally:
        for stream, write in cleaned:
            vars(stream)["write"] = write
