"""Templates: `{name}`, `{name:filter}`, `{name|other}` (the first non-empty one), and `[ on {node}]`, left out if the
value is empty.

Invariants:
    templates.T1. A value is never parsed as a template.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from livedbg.logs.last_words import telling_line
from livedbg.logs.passed_on import passes_on
from livedbg.logs.tracebacks import innermost_raised, plain_form
from livedbg.model import Frame
from livedbg.text.commands import program_of, with_brief_commands
from livedbg.text.demangling import demangled_symbol
from livedbg.text.patterns import lazy_re
from livedbg.text.quantities import byte_size
from livedbg.text.shortening import shortened

_TOKEN: Final = lazy_re(
    r"\\(?P<plain>[\[\]{}\\])|\{(?P<names>[a-z_][\w-]*(?::[a-z0-9-]+)*(?:\|[a-z_][\w-]*(?::[a-z0-9-]+)*)*)\}|(?P<sign>[\[\]{}])"
)
_FRAME: Final = r"File \"([^\"\n]{1,400})\", line (\d{1,9})(?:(,?) in (<[^>\n]{1,100}>|[^\s\"]{1,200}))?"
_SHELL_ADDS: Final = 128
_FAULTS: Final = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)
_SHORT: Final = 160
_UNITS: Final = 1024**2  # kB of a GiB

Name = tuple[str, tuple[str, ...]]
Piece = str | tuple[Name, ...] | list["Piece"]


def _number(text: str) -> int:
    return int(text, 16) if text.lower().startswith("0x") else int(text)


def _signal(text: str) -> str:
    """Return `SIGKILL` for `9`, `Killed` or `SIGKILL`; `signal 63` for a number without a name."""
    if text.startswith("SIG") or not text:
        return text
    number = int(text) if text.lstrip("-").isdigit() else _number_of(text)
    try:
        return signal.Signals(abs(number)).name
    except ValueError:
        return f"signal {text}"


def _number_of(words: str) -> int:
    return next((int(one) for one in signal.Signals if signal.strsignal(one) == words), 0)


def _signal_words(text: str) -> str:
    """Return `SIGSEGV: Segmentation fault`."""
    number = int(text)
    said = signal.strsignal(number) if 0 < number < signal.NSIG else None
    return f"{_signal(text)}: {said}" if said else _signal(text)


def _exit_signal(text: str) -> str:
    """Return the signal of a fault in a shell's exit code, or ""."""
    number = int(text) - _SHELL_ADDS
    return _signal(str(number)) if 0 < number < signal.SIGALRM and number != signal.SIGTRAP else ""


def _wait_status(text: str) -> str:
    """Return `SIGSEGV` for 139, `exit code 1` for 256: a status of wait(2); `status N` for one that is no end."""
    try:
        code = os.waitstatus_to_exitcode(int(text))
    except (ValueError, OverflowError):
        return f"status {text}"
    return _signal(str(code)) if code < 0 else f"exit code {code}"


def _exit_fault(text: str) -> str:
    number = int(text) - _SHELL_ADDS
    return _signal_words(str(number)) if number in _FAULTS else ""


def _cut(most: int) -> Callable[[str], str]:
    def cut(text: str) -> str:
        line = with_brief_commands(text.strip().partition("\n")[0]).strip(" .:")
        return shortened(line, most)

    return cut


def _more_than(text: str) -> str:
    """Return `more` for `17.1 16.4`, numbers or versions of which the first is the larger one; else ""."""
    one, other = (tuple(map(int, word.split("."))) for word in text.split())
    return "more" if one > other else ""


_OF_LIBRARIES: Final = ("-packages/", "/lib/python", ".pyx", ".pxi")  # Cython modules come built


def frame_of(text: str) -> str:
    """Return `main (train.py:45)`: the innermost Python frame of a text that is in no library; or the innermost.

    Of chained tracebacks the relevant one counts. Without a head, a traceback has it last, and a comma before the
    function; faulthandler has it first, and none. One that passes on what another one did comes last.
    """
    raised = innermost_raised(text.split("\n"))
    frames = [frame for frame in raised.stack if frame.language == "python"] if raised is not None else []
    if not frames:
        found = re.findall(_FRAME, text) or re.findall(_FRAME, "\n".join(plain_form(text.split("\n"))))
        ordered = reversed(found) if any(comma for *_, comma, _ in found) else found
        frames = [Frame(function=name, file=file, line=int(line)) for file, line, _, name in ordered]
    frame = min(frames, key=_far_from_own, default=None)
    if frame is None:
        return ""
    return f"{frame.function or '?'} ({(frame.file or '').rpartition('/')[2]}:{frame.line})"


def _far_from_own(frame: Frame) -> int:
    if passes_on(frame):
        return 2
    return int(any(sign in (frame.file or "") for sign in _OF_LIBRARIES))


FILTERS: Final[Mapping[str, Callable[[str], str]]] = {
    "int": lambda text: str(_number(text)),
    "count": lambda text: f"{_number(text):,}",
    "seconds": lambda text: f"{int(text) / 1000:,.0f} s",
    "base": lambda text: re.split(r"[/\\]", text)[-1],
    "frame": frame_of,
    "more-than": _more_than,
    "gib": lambda text: f"{int(text) / _UNITS:,.1f} GiB",
    "size": lambda text: byte_size(int(text)),
    "hex": lambda text: f"0x{_number(text) % (1 << 32):08X}",
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
    "strip": lambda text: text.strip(" .,:;\t\r\n"),
    "line": lambda text: " ".join(text.split()),
    "cap": lambda text: f"{text[:1].upper()}{text[1:]}",
    "uncap": lambda text: f"{text[:1].lower()}{text[1:]}",
    "program": program_of,
    "reason": lambda text: _cut(_SHORT)(telling_line(text)),
    "short": _cut(_SHORT),
    "short-120": _cut(120),
    "short-60": _cut(60),
    "short-12": lambda text: text[:12],
    "signal": _signal,
    "signal-says": lambda text: signal.strsignal(getattr(signal, text, 0)) or text if hasattr(signal, text) else "",
    "symbol": lambda text: demangled_symbol(text).partition("(")[0],
    "signal-number": lambda text: text if text.isdigit() else str(int(getattr(signal, text, signal.SIGABRT))),
    "signal-words": _signal_words,
    "exit-signal": _exit_signal,
    "exit-fault": _exit_fault,
    "wait-status": _wait_status,
}
"""What can be done to a value."""


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill in a template; missing values are empty.

    Raises:
        ValueError: a filter can't take its value.
    """
    pieces = _parsed(template)
    if len(pieces) == 1 and isinstance(piece := pieces[0], tuple):  # most templates are one value
        return _value(piece, values)
    return _rendered(pieces, values)[0]


def names_in(template: str) -> set[str]:
    """Return the names in a template.

    Raises:
        ValueError: it is no template, or a filter of it is unknown.
    """

    def of(pieces: Sequence[Piece]) -> set[str]:
        found: set[str] = set()
        for piece in pieces:
            if isinstance(piece, tuple):
                found.update(name for name, _ in piece)
                if unknown := [name for _, filters in piece for name in filters if name not in FILTERS]:
                    raise ValueError(f"there is no filter {unknown[0]!r}; there are {', '.join(FILTERS)}")
            elif isinstance(piece, list):
                if not (inner := of(piece)):
                    raise ValueError(f"a `[…]` without a value in the template {template!r}: write \\[ and \\]")
                found |= inner
        return found

    return of(_parsed(template))


def _rendered(pieces: Sequence[Piece], values: Mapping[str, str]) -> tuple[str, bool]:
    text, whole = "", True
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        elif isinstance(piece, tuple):
            value = _value(piece, values)
            whole = whole and bool(value)
            text += value
        else:
            inner, there = _rendered(piece, values)
            text += inner if there else ""
    return text, whole


def _value(names: Iterable[Name], values: Mapping[str, str]) -> str:
    for name, filters in names:
        value = values.get(name)
        for one in filters if value else ():
            value = FILTERS[one](value or "")
        if value:
            return value
    return ""


@cache
def _parsed(template: str) -> Sequence[Piece]:
    stack: list[list[Piece]] = [[]]
    at = 0
    for token in _TOKEN.finditer(template):
        stack[-1].append(template[at : token.start()])
        at = token.end()
        if token["plain"]:
            stack[-1].append(token["plain"])
        elif token["names"]:
            names = (name.split(":") for name in token["names"].split("|"))
            stack[-1].append(tuple((name, tuple(filters)) for name, *filters in names))
        elif token["sign"] == "[":
            stack.append([])
        elif token["sign"] == "]" and len(stack) > 1:
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            raise ValueError(
                f"{token['sign']!r} at {token.start()} of the template {template!r}: write \\{token['sign']}"
            )
    if len(stack) > 1:
        raise ValueError(f"a `[` is not closed in the template {template!r}: write \\[")
    stack[-1].append(template[at:])
    return [piece for piece in stack[0] if piece != ""]
