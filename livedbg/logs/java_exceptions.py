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

from livedbg.logs.stack_listings import listed
from livedbg.model import Frame

__all__ = ["JAVA_LINE", "JavaException", "java_exception"]

JAVA_LINE: Final = re.compile(r"Caused by: [\w.$]{1,200}(?:: |$)|Driver stacktrace:")
"""How lines look that go on with one."""

_LONGEST: Final = 60_000
_HEAD: Final = re.compile(
    r"^(?:Exception in thread \"(?P<thread>[^\"\n]{1,100})\" |(?P<cause>Caused by: ))?"
    r"(?:[^\n]{0,300}?(?<![\w.$]))??(?P<type>(?:[a-z_]\w{0,60}\.){1,12}[A-Z][\w$]{0,100})"
    r"(?:: (?P<said>[^\n]{0,1000}))?$"
    r"(?=(?:\n(?!\s+at |Caused by: )[^\n]{0,500}){0,4}\n\s+at [\w.$<>/]+\()",
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
    stop = text.find("\nCaused by: ", root.end())
    stack = listed("java", text, root.end(), stop if stop >= 0 else None)
    led = f"it led to {first['type']}: {(first['said'] or '').strip()}"[:300].rstrip(": .") if root is not first else ""
    return JavaException(
        root["type"],
        (root["said"] or "").strip(),
        stack,
        text.count("\n", 0, root.start("type")),
        led,
        first["thread"] is not None,
    )
