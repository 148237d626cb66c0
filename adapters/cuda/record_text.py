"""What of a record's text is said, and what is a program's source that it quotes."""

from __future__ import annotations

import re

__all__ = ["line_of", "outside_source", "quoted"]


def outside_source(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match that is not in a program's source."""
    return next((match for match in pattern.finditer(text) if not quoted(text, match.start())), None)


def quoted(text: str, position: int) -> bool:
    """Whether a position is in a line of source: in a comment, or in a string in the line that a traceback shows."""
    before = text[text.rfind("\n", 0, position) + 1 : position]
    begun = before.lstrip()
    return "// " in before or begun.startswith(("# ", "* ", "/*")) or (before[:4].isspace() and before[-1:] in "'\"")


def line_of(text: str, position: int) -> str:
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[begin : end if end >= 0 else len(text)][:4_000]
