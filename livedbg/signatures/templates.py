"""Templates of sentences: `{name}`, `{name:filter}`, and `[ on {node}]`, left out where the value is not there.

Invariants:
    templates.T1. What a value holds is never taken for a template.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from livedbg.text.demangling import demangled_symbol

__all__ = ["FILTERS", "names_in", "render"]

_TOKEN: Final = re.compile(
    r"\\(?P<plain>[\[\]{}\\])|\{(?P<name>[a-z_][\w-]*)(?P<filters>(?::[a-z0-9-]+)*)\}|(?P<sign>[\[\]{}])"
)
_SHELL_ADDS: Final = 128
_FAULTS: Final = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)
_SHORT: Final = 160
_UNITS: Final = 1024**2  # kB of a GiB

Piece = str | tuple[str, tuple[str, ...]] | list["Piece"]


def _number(text: str) -> int:
    return int(text, 16) if text.lower().startswith("0x") else int(text)


def _signal(text: str) -> str:
    """`SIGKILL` of `9`, `Killed` or `SIGKILL`; `signal 63` of a number without a name."""
    if text.startswith("SIG") or not text:
        return text
    number = int(text) if text.lstrip("-").isdigit() else _number_of(text)
    try:
        return signal.Signals(abs(number)).name
    except ValueError:
        return f"signal {text}"


def _number_of(words: str) -> int:
    """The number of a signal, from what `strsignal` says of it."""
    return next((int(one) for one in signal.Signals if signal.strsignal(one) == words), 0)


def _signal_words(text: str) -> str:
    """`SIGSEGV: Segmentation fault`."""
    number = int(text)
    said = signal.strsignal(number) if 0 < number < signal.NSIG else None
    return f"{_signal(text)}: {said}" if said else _signal(text)


def _exit_signal(text: str) -> str:
    """The signal of a fault that an exit code of a shell stands for; "" for another."""
    number = int(text) - _SHELL_ADDS
    return _signal(str(number)) if 0 < number < signal.SIGALRM and number != signal.SIGTRAP else ""


def _exit_fault(text: str) -> str:
    number = int(text) - _SHELL_ADDS
    return _signal_words(str(number)) if number in _FAULTS else ""


def _cut(most: int) -> Callable[[str], str]:
    def cut(text: str) -> str:
        line = text.strip().partition("\n")[0].strip(" .:")
        return line if len(line) <= most else f"{line[: most - 1]}…"

    return cut


FILTERS: Final[Mapping[str, Callable[[str], str]]] = {
    "int": lambda text: str(_number(text)),
    "count": lambda text: f"{_number(text):,}",
    "gib": lambda text: f"{int(text) / _UNITS:,.1f} GiB",
    "hex": lambda text: f"0x{_number(text) % (1 << 32):08X}",
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
    "strip": lambda text: text.strip(" .,:\t\r\n"),
    "line": lambda text: " ".join(text.split()),
    "cap": lambda text: f"{text[:1].upper()}{text[1:]}",
    "uncap": lambda text: f"{text[:1].lower()}{text[1:]}",
    "short": _cut(_SHORT),
    "short-120": _cut(120),
    "short-60": _cut(60),
    "short-12": lambda text: text[:12],
    "signal": _signal,
    "symbol": lambda text: demangled_symbol(text).partition("(")[0],
    "signal-number": lambda text: text if text.isdigit() else str(int(getattr(signal, text, signal.SIGABRT))),
    "signal-words": _signal_words,
    "exit-signal": _exit_signal,
    "exit-fault": _exit_fault,
}
"""What can be done to a value."""


def render(template: str, values: Mapping[str, str]) -> str:
    """A template with its values.

    Args:
        template: the text.
        values: by name; one that is missing is empty.

    Raises:
        ValueError: a filter can't take its value.
    """
    return _rendered(_parsed(template), values)[0]


def names_in(template: str) -> set[str]:
    """The names that a template asks for.

    Raises:
        ValueError: it is no template, or a filter of it is unknown.
    """

    def of(pieces: Sequence[Piece]) -> set[str]:
        found: set[str] = set()
        for piece in pieces:
            if isinstance(piece, tuple):
                found.add(piece[0])
                if unknown := [name for name in piece[1] if name not in FILTERS]:
                    raise ValueError(f"there is no filter {unknown[0]!r}; there are {', '.join(FILTERS)}")
            elif isinstance(piece, list):
                found |= of(piece)
        return found

    return of(_parsed(template))


def _rendered(pieces: Sequence[Piece], values: Mapping[str, str]) -> tuple[str, bool]:
    """The text, and whether all values of it are there."""
    text, whole = "", True
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        elif isinstance(piece, tuple):
            value = values.get(piece[0]) or ""
            for name in piece[1] if value else ():
                value = FILTERS[name](value)
            whole = whole and bool(value)
            text += value
        else:
            inner, there = _rendered(piece, values)
            text += inner if there else ""
    return text, whole


@cache
def _parsed(template: str) -> Sequence[Piece]:
    stack: list[list[Piece]] = [[]]
    at = 0
    for token in _TOKEN.finditer(template):
        stack[-1].append(template[at : token.start()])
        at = token.end()
        if token["plain"]:
            stack[-1].append(token["plain"])
        elif token["name"]:
            stack[-1].append((token["name"], tuple(filter(None, token["filters"].split(":")))))
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
    return stack[0]
