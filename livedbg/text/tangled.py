"""Exceptions that several processes printed into each other's lines: `KeyErrorKeyError: : 'a''a'`.

CPython writes the name of an exception, the colon and the message one after the other (Lib/traceback.py), so the pieces
of processes that fail at once are mixed. A module of its own, since it reads no stack.

Invariants:
    tangled.N1. A text is taken apart only where the name of a class is there twice without anything between, or more
        headers of tracebacks stand above than tracebacks: one process may well quote its own error.
    tangled.N2. What is said is a message that all pieces are of; where they differ, the name alone is cleaned.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from livedbg.text.patterns import lazy_re

_TWICE: Final = lazy_re(r"(?P<one>[\w.]{0,200}?[a-z](?:Error|Exception|Interrupt|Exit))(?P=one){1,63}$")
_BEGUN: Final = 6
"""So many characters of a message, at least, begin the next one."""
_BETWEEN: Final = ": \n"


class Untangled(NamedTuple):
    """An exception of several processes; `times` is how often its name is there."""

    type: str
    message: str
    times: int


def untangled(type_: str, message: str, more_headers: bool) -> Untangled | None:
    """Return the exception that several processes printed at once (N1), or None.

    Args:
        more_headers: whether more headers of tracebacks stand above it than tracebacks.
    """
    twice = _TWICE.match(type_)
    name = twice["one"] if twice is not None else type_
    times = f"{type_}: {message}".count(name)
    if twice is None and (times < 2 or not more_headers):
        return None
    rest = message.replace(name, "").strip(_BETWEEN)
    one = _repeated(rest)
    return Untangled(name, one or rest, times) if one or twice is not None else None


def _repeated(text: str) -> str:
    """Return what a text consists of, more than once, with nothing but colons between; or ""."""
    begun = text[:_BEGUN]
    at = text.find(begun, 1) if len(begun) == _BEGUN else -1
    while at > 0:
        one = text[:at].rstrip(_BETWEEN)
        if not text.replace(one, "").strip(_BETWEEN):
            return one
        at = text.find(begun, at + 1)
    return ""
