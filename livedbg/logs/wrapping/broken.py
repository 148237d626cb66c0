"""Lines that a terminal broke at its width, as they stand in what was copied from it or captured (tmux, screen).

A line that is longer than the terminal is wide goes on in the next one, in the middle of a word. Text that was filled
to a width, tables, rules and lines that a program cut off have one length, too. So either several lines must show that
they go on (an open quotation mark or bracket that the next line closes, a path in two, a frame of a traceback whose
line number stands in the next line), or there are many, and what follows them begins as no other line does.

Invariant:
    broken.K1. Lines are joined only where none is longer, hardly one ends just before the width, and no two in a row
        are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.logs.wrapping.rows import begins_line

__all__ = ["broken_at"]

_NARROWEST: Final = 60
_WIDEST: Final = 400
_NEAR: Final = 6  # so many characters before the width a filled line may end, and a broken one seldom does
_FEWEST: Final = 2
_USUAL: Final = frozenset((80, 100, 120, 132, 160))
_FRAME: Final = re.compile(r'[ |+]*File "[^"]+", line \d+(?:, in |$)')
_FRAME_NAME: Final = re.compile(r", in [\w<.]*$")
_NAME: Final = re.compile(r"[\w<>.]+")
_FRAME_BEGUN: Final = re.compile(r'[ |+]*File "')
_MANY: Final = 4
_SOME_BLANK: Final = 16
"""Of so many lines that were broken anywhere, one at least was broken at a blank; text that was filled never is."""
_STRETCHED: Final = re.compile(r"\w[,.;]? {2,3}\w+ ")
_ALIKE: Final = 24
_HEAD: Final = 12
_QUOTE_OPEN: Final = re.compile(r".*(?:^|[\s(\[{=:,])'[^']*$", re.DOTALL)
_QUOTE_CLOSED: Final = re.compile(r"[^']*'(?:$|[\s)\]},.:;])")
_KIND: Final = re.compile(r"[A-Za-z_.]{0,200}?[A-Z]\w{0,100}(?:Error|Exception)$")
_LAST: Final = re.compile(r"(?<!\S)\S+$")
_FIRST: Final = re.compile(r"[\w./-]+")


def broken_at(texts: Sequence[str]) -> int:
    """The width at which lines were broken; 0 if they were not.

    Args:
        texts: lines; the last one may be a piece of one.
    """
    texts = texts[:-1] if len(texts) > 1 else texts
    width = max(map(len, texts), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return 0
    full = [number for number, text in enumerate(texts) if len(text) == width and not _is_rule(text)]
    near = sum(width - _NEAR <= len(text) < width for text in texts)
    pairs = _different((texts[number], texts[number + 1]) for number in full if number + 1 < len(texts))
    if not pairs or near > len(full) or sum(" " in first for first, _ in pairs) * 2 < len(pairs):
        return 0
    alike = sum(_shape(first, _ALIKE) == _shape(rest, _ALIKE) for first, rest in pairs)
    indented = sum(rest.startswith("  ") for _, rest in pairs)
    if alike * 3 > len(pairs) or indented * 3 > len(pairs):
        return 0
    if any(_cut_frame(first, rest) for first, rest in pairs):
        return width
    sure = sum(_goes_on(first, rest) for first, rest in pairs)
    usual = width in _USUAL
    if len(full) >= _FEWEST and sure >= (1 if usual else _FEWEST) and sure * 4 >= len(pairs):
        return width
    after = {number + 1 for number in full}
    heads = {_shape(text, _HEAD) for number, text in enumerate(texts) if number not in after}
    familiar = sum(_shape(rest, _HEAD) in heads or begins_line(rest) for _, rest in pairs)
    inside = sum(first[-1] != " " and rest[:1] not in ("", " ") for first, rest in pairs)
    justified = sum(_STRETCHED.search(first) is not None for first, _ in pairs) * 2 > len(pairs)
    if justified or (inside == len(pairs) >= _SOME_BLANK):
        return 0
    many = _MANY - 1 if usual and not near and not familiar else _MANY
    different = len({_shape(rest, _HEAD) for _, rest in pairs})
    rare = near * 4 <= len(pairs) and familiar * 3 <= len(pairs) and inside * 2 >= len(pairs)
    return width if rare and different >= many else 0


def _different(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """One of all pairs that begin alike: a message that comes again and again says no more than once."""
    return list({(_shape(first, _ALIKE), _shape(rest, _HEAD)): (first, rest) for first, rest in pairs}.values())


def _is_rule(text: str) -> bool:
    return len(set(text)) <= 3 or text.startswith(("+--", "|", "╭", "│", "╰", "┌", "└"))


def _shape(text: str, size: int) -> str:
    """How a line begins: which of its characters are digits, small and capital letters, in runs."""
    return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "0", text[:size])))


def _cut_frame(first: str, rest: str) -> bool:
    """Whether two lines are a frame of a traceback."""
    if _FRAME_BEGUN.match(first) is None or _FRAME.match(first + rest) is None:
        return False
    return _FRAME.match(first) is None or (_FRAME_NAME.search(first) is not None and _NAME.fullmatch(rest) is not None)


def _goes_on(first: str, rest: str) -> bool:
    """Whether the second line most likely goes on with the first."""
    if not rest or begins_line(rest):
        return False
    if first[-1] in " ,([{;" or rest[0] in " \t)]}":
        return False
    if any(first.count(quote) % 2 and rest.count(quote) % 2 for quote in '"`'):
        return True
    if _QUOTE_OPEN.match(first) and _QUOTE_CLOSED.match(rest):
        return True
    return _left_open(first) == _left_closed(rest) != "" or _one_word(first, rest)


def _one_word(first: str, rest: str) -> bool:
    """Whether a path or the name of an exception is cut in two."""
    end, begin = _LAST.search(first), _FIRST.match(rest)
    if end is None or begin is None:
        return False
    if "/" in begin[0][1:] and "/" in end[0] and end[0][0] in "/.\"'(":
        return True
    name = re.match(r"\w*", begin[0])
    whole = (re.search(r"(?<![\w.])[\w.]*$", end[0]) or end)[0] + (name[0] if name is not None else "")
    cut = name is not None and _KIND.match(name[0]) is None and name[0] not in ("Error", "Exception")
    return cut and _KIND.match(whole) is not None


def _left_open(text: str) -> str:
    """What would close the innermost bracket that a text leaves open."""
    stack: list[str] = []
    for one in text:
        if one in "([{":
            stack.append(")]}"["([{".index(one)])
        elif stack and one == stack[-1]:
            stack.pop()
    return stack[-1] if stack else ""


def _left_closed(text: str) -> str:
    """The first closing bracket of a text that it does not open."""
    depth = 0
    for one in text:
        if one in "([{":
            depth += 1
        elif one in ")]}":
            if not depth:
                return one
            depth -= 1
    return ""
