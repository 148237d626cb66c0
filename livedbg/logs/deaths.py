"""One line by which a process says that it died, or a shell of its child: signals, aborts of the C library, asserts.

Sources: glibc malloc/malloc.c, debug/fortify_fail.c and assert/assert.c; assert of BSD, macOS and Windows; bash's,
zsh's and fish's words for signals, and UCX's.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.native_frames import native_frames
from livedbg.model import Frame

__all__ = ["DEATHS", "DEATH_WORDS", "died"]

_SIGNAL_NAMES = r"(Segmentation fault|Bus error|Illegal instruction|Floating point exception)"
_SIGNAL = re.compile(  # as a shell or UCX's handler say it
    r"^zsh: (segmentation fault|abort|bus error|illegal hardware instruction)  "
    r"|\bterminated by signal (SIG[A-Z]{2,4}) \("
    rf"|(?:^|[:\d]) *{_SIGNAL_NAMES}(?: +\(core dumped\)| *$|  )|Caught signal \d{{1,18}} \({_SIGNAL_NAMES}"
    r"|Caught signal 6 \((Aborted)\)"
    r"|(?:^|: line \d{1,9}: +\d{1,10} )(Aborted)(?: +\(core dumped\)| *$)",
    re.MULTILINE,
)
_GLIBC = re.compile(
    r"^(?:\*\*\* Error in `[^']*': )?((?:double free or corruption|free\(\): |malloc\(\): |malloc_consolidate\(\): "
    r"|realloc\(\): |munmap_chunk\(\): |corrupted (?:size|double-linked)|\*\*\* stack smashing detected"
    r"|\*\*\* buffer overflow detected)[^\n]*)",
    re.MULTILINE,
)
_ASSERT = re.compile(r"^\S+: (\S+:\d{1,18}): (.{0,4000}): (Assertion `.{0,1000}' failed\.)$", re.MULTILINE)
_ASSERT_BSD = re.compile(  # macOS, BSD and Windows
    r"^Assertion failed: (?P<said>[^\n]{1,500}?), (?:function (?P<function>[^\n]{1,300}?), )?"
    r"file (?P<file>[^\n]{1,300}?), line (?P<line>\d{1,9})",
    re.MULTILINE,
)

DEATHS: Final = (("glibc-abort", _GLIBC), ("assert", _ASSERT), ("assert", _ASSERT_BSD), ("signal", _SIGNAL))
"""By kind, what finds one."""

_GLIBC_WORDS: Final = (
    "corruption",
    "free(): ",
    "alloc(): ",
    "_consolidate(): ",
    "_chunk(): ",
    "corrupted ",
    "detected",
)
_SIGNAL_WORDS: Final = ("Segmentation fault", "Bus error", "Illegal instruction", "Floating point")
DEATH_WORDS: Final = {
    "glibc-abort": _GLIBC_WORDS,
    "assert": (": Assertion `", "Assertion failed: "),
    "signal": (*_SIGNAL_WORDS, "Aborted", "zsh: ", "terminated by signal SIG"),
}
"""By kind, one of the words that a text must hold."""


def died(kind: str, match: re.Match[str], text: str) -> tuple[str, str, tuple[Frame, ...]]:
    """What one is called, its message, and its frames.

    Args:
        kind: as in `DEATHS`.
        match: of its pattern.
        text: of the record.
    """
    if kind == "assert" and "file" in match.groupdict():
        file = match["file"].replace("\\", "/")
        frame = Frame(function=match["function"] or "?", file=file, line=int(match["line"]))
        said = f"{file.rpartition('/')[2]}:{match['line']}: Assertion failed: {match['said']}"
        return ("assert", said, (frame,) if match["function"] else ())
    if kind == "assert":
        return ("assert", f"{match[1]}: {match[2]}: {match[3]}", native_frames(text))
    if kind == "glibc-abort":
        return ("SIGABRT", match[1].strip(), native_frames(text))
    word = next(group for group in match.groups() if group)
    return (_SIGNALS[word], word, native_frames(text))


_SIGNALS: Final = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Aborted": "SIGABRT",
    "segmentation fault": "SIGSEGV",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
    "illegal hardware instruction": "SIGILL",
    **{name: name for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")},
}
