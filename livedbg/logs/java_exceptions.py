"""Exceptions of Java, Scala and Kotlin: of a chain of causes the root, with its frames.

Source: java.lang.Throwable.printStackTrace (`Caused by: `, `... 12 more`), ThreadGroup.uncaughtException (`Exception
in thread "main" `); Spark's `Driver stacktrace:`.

Invariants:
    java_exceptions.J1. The last `Caused by` is the root; what it led to is said beside it. `Suppressed` ones are none.
    java_exceptions.J2. What a thread that is not the main one throws ends no program: it is none.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from livedbg.model import Frame

__all__ = ["JAVA_LINE", "JAVA_WORDS", "JavaException", "java_exception"]

JAVA_WORDS: Final = (".java:", ".scala:", ".kt:", "(Native Method)", "Caused by: ", 'Exception in thread "')
"""One of these is in each of them."""
JAVA_LINE: Final = re.compile(r"Caused by: [\w.$]{1,200}(?:: |$)|Driver stacktrace:")
"""How lines look that go on with one."""

_LONGEST: Final = 60_000
_FRAMES: Final = 100
_HEAD: Final = re.compile(
    r"^(?:Exception in thread \"(?P<thread>[^\"\n]{1,100})\" |(?P<cause>Caused by: ))?"
    r"(?:[^\n]{0,300}?(?<![\w.$]))??(?P<type>(?:[a-z_]\w{0,60}\.){1,12}[A-Z][\w$]{0,100})"
    r"(?:: (?P<said>[^\n]{0,1000}))?$"
    r"(?=(?:\n(?!\s+at |Caused by: )[^\n]{0,500}){0,4}\n\s+at [\w.$<>/]+\()",
    re.MULTILINE,
)
_FRAME: Final = re.compile(
    r"^[^\S\n]+at (?:[\w.@-]{1,80}/{1,2})?(?P<function>[\w.$<>]{1,300})"
    r"\((?:(?P<file>\w{1,100}\.(?:java|scala|kt)):(?P<line>\d{1,9})|Native Method|Unknown Source|[\w.]{1,100})\)",
    re.MULTILINE,
)


class JavaException(NamedTuple):
    """One of them.

    Attributes:
        thrown: nothing caught it: the thread that it ended says so.
        stack: innermost first.
        raised: index of the line of the root.
        related: what it led to.
    """

    type: str
    message: str
    stack: tuple[Frame, ...]
    raised: int
    related: str
    thrown: bool


def java_exception(text: str) -> JavaException | None:
    """The exception that a record prints, with its stack."""
    text = text[:_LONGEST]
    heads = list(_HEAD.finditer(text))
    if not heads:
        return None
    first = heads[0]
    if first["thread"] not in (None, "main"):
        return None
    root = next((head for head in reversed(heads) if head["cause"]), first)
    stack = _frames(text, root.end())
    led = f"it led to {first['type']}: {(first['said'] or '').strip()}"[:300].rstrip(": .") if root is not first else ""
    return JavaException(
        root["type"],
        (root["said"] or "").strip(),
        stack,
        text.count("\n", 0, root.start("type")),
        led,
        first["thread"] is not None,
    )


def _frames(text: str, begin: int) -> tuple[Frame, ...]:
    """The frames below a heading, those that know their line before natives."""
    stop = text.find("\nCaused by: ", begin)
    found = []
    for match in _FRAME.finditer(text, begin, stop if stop >= 0 else len(text)):
        number = match["line"]
        found.append(
            Frame(
                function=match["function"],
                file=match["file"],
                line=int(number) if number else None,
                language="java",
            )
        )
        if len(found) == _FRAMES:
            break
    return tuple(found)
