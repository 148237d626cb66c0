"""Wrappings that the first lines of a log show together, and no line by itself. They are taken off before all others:

1. HTML entities of a copied page, and its colours without their escape: `[36m` and `[0m`.
2. Lines that a terminal broke at its width, in text that was copied from it or captured (tmux, screen). A line longer
than the terminal's width continues in the next one, in the middle of a word. Text that was filled to a width, tables,
rules and lines that a program cut off have one length, too. So either several lines must show that they continue (an
open quotation mark or bracket that the next line closes, a path in two, a frame of a traceback whose line number is in
the next line), or there are many, and the lines after them begin as no other line does. Where the copy filled all
lines with blanks up to the width, one such line is enough.
3. The columns of `gh run view --log`, or the one of `parallel --tag`.
4. An unknown prefix of all first lines: `Step #4: `, `0|train  | `, `train.1.x7@node07  | `. Numbers in it may differ.
The text after it must show that it is a prefix: the beginning of a traceback, a log header, another wrapping. A
logger's head is none (livedbg.logs.wrapping.heads).
5. A clock without a day, as a CI puts it before each line, empty ones too: `00:35:38 `, `[00:35:38] `, `12:04:18.1 | `.
Lines behind it must show that they are those of a longer text, and few begin with a level: that is a logger's head.
6. The indentation of a build's output, which an installer of packages (pip, uv) prints below an arrow
(`╰─> [30 lines of output]`).

Invariants:
    opening.O1. Nothing is taken off unless all of the lines agree with it.
    opening.K1. Lines are joined only where none is longer, hardly one ends just before the width, and no two in a row
        are alike.
    opening.T1. A clock is taken off only where most lines have it in one form, and what they say is no logger's.
    opening.C1. A prefix is taken off only where no known wrapping explains the lines, all lines have it, and a line
        after it surely is a line of its own. It is kept as the writer, without a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.certain import CERTAIN
from livedbg.logs.wrapping.guesses import GUESSES, leveled
from livedbg.logs.wrapping.heads import time_of
from livedbg.logs.wrapping.peeling import Known
from livedbg.logs.wrapping.prefixes import Layer, by
from livedbg.logs.wrapping.rows import BEGINS, begins_line, longer, may_be_host
from livedbg.logs.writers import NO_TAG, Opened, Tag
from livedbg.text.patterns import lazy_re

FIRST_LINES: Final = 1_000
"""Lines that are looked at."""

_FEWEST: Final = 3
_LABEL: Final = lazy_re(r"(?P<label>[\w.@:/-]{1,80})\t")
_LEVEL: Final = lazy_re(r"(?i:debug|trace|info|notice|warn|warning|error|critical|fatal|default)")
_MANY: Final = 0.8  # of lines that must have the columns of gh

_ENTITY: Final = lazy_re(r"&(?:lt|gt|quot|amp|nbsp|apos|#0?39|#x27|#34|#x2[fF]|#47|#x60|#96|#x3[dD]|#61);")
_CHARACTER: Final = {
    "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&", "&nbsp;": " ", "&apos;": "'", "&#39;": "'", "&#039;": "'",
    "&#x27;": "'", "&#34;": '"', "&#x2f;": "/", "&#47;": "/", "&#x60;": "`", "&#96;": "`", "&#x3d;": "=", "&#61;": "=",
}  # fmt: skip
_SETS: Final = r"\[(?:[0-9];){0,2}(?:[12]|3[0-9]|4[0-9]|9[0-7]|38;5;\d{1,3})m"
_ENDS: Final = r"\[(?:0;)?(?:0|39|22)?m"
_COLOUR: Final = lazy_re(rf"{_SETS}|{_ENDS}")
_COLOURED: Final = lazy_re(rf"(?<![\x1b\w\]]){_SETS}[^\[\n]{{1,200}}{_ENDS}")
"""What is set and ended again in one line: no program writes that, but for colours."""
_GH: Final = lazy_re(
    r"(?P<job>[^\t]{1,200})\t(?P<step>[^\t]{1,200})\t[\ufeff\ufffd]?"
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(?P<part>\d{1,9})Z(?: |$)"
)


_ARROWED: Final = lazy_re(
    r"(?P<before> {0,8})(?:\u2570\u2500[>\u25b6]|\+->) (?:\[\d{1,7} lines? of output\]|Call to `)"
)
_BELOW_ARROW: Final = 4
"""So many blanks more than before the arrow stand before the output below it."""


def shown_by(texts: Sequence[str]) -> list[Known]:
    """Return the wrappings that the first lines of a log show; the last one may be cut."""
    found: list[Known] = []
    if _has_entities(texts):
        found.append(Known("", _unescaped, once=True, rewrites=True))
        texts = [_plain(text) for text in texts]
    if any("[" in text and _COLOURED.search(text) is not None for text in texts):
        found.append(Known("", _uncoloured, once=True, rewrites=True))
        texts = [_COLOUR.sub("", text) for text in texts]
    padded = _padded_to(texts)
    if width := padded or broken_at(texts):
        found.append(Known("", _joining(width, padded > 0), once=True, joins=True, rewrites=True))
    if any("> [" in text or "\u25b6 Call to `" in text for text in texts):
        found.append(Known("", _outdenting(), once=True))
    if _has_columns(texts):
        found.append(Known("", _columns, once=True))
    elif _has_labels(texts):
        found.append(Known("", _label, once=True))
    elif (clock := _clock_of(texts)) is not None:
        found.append(Known("", clock, once=True))
    elif (prefix := _common_prefix(texts)) is not None:
        found.append(Known("", prefix, once=True))
    return found


def _has_entities(texts: Sequence[str]) -> bool:
    """Return whether some characters are HTML entities and none of those occurs unescaped."""
    if not any("&lt;" in text or "&quot;" in text or "&#" in text for text in texts):
        return False
    found = {entity[0] for text in texts for entity in _ENTITY.finditer(text)}
    meant = {_CHARACTER[entity.lower()] for entity in found}
    raw = {one for one in "<>\"'" if any(one in text for text in texts)}
    return bool(meant & {"<", '"', "'"}) and "<" not in raw and not meant & raw and not _bare_ampersand(texts)


def _bare_ampersand(texts: Sequence[str]) -> bool:
    return any("&" in _ENTITY.sub("", text) for text in texts if "&" in text)


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda match: _CHARACTER[match[0].lower()], text) if "&" in text else text


def _unescaped(text: str, clock: SourceClock) -> Opened | None:
    return Opened(_plain(text)) if "&" in text else None


def _uncoloured(text: str, clock: SourceClock) -> Opened | None:
    return Opened(_COLOUR.sub("", text)) if "[" in text and _COLOUR.search(text) is not None else None


def _joining(width: int, padded: bool) -> Layer:
    def opened(text: str, clock: SourceClock) -> Opened | None:
        part = len(text) == width and not (padded and text.endswith(_PADDING))
        return Opened(text if part else text.rstrip(" ") if padded else text, part=part)

    return opened


def _outdenting() -> Layer:
    indentation = ""

    def opened(text: str, clock: SourceClock) -> Opened | None:
        nonlocal indentation
        arrow = _ARROWED.match(text)
        if arrow is not None:
            indentation = " " * (len(arrow["before"]) + _BELOW_ARROW)
        return Opened(text.removeprefix(indentation)) if indentation and text.startswith(indentation) else None

    return opened


def _has_columns(texts: Sequence[str]) -> bool:
    said = [text for text in texts if text and not text.isspace()]
    if not said or "\t" not in said[0]:
        return False
    match: Callable[[str], re.Match[str] | None] = _GH.match
    return sum(match(text) is not None for text in said) >= _MANY * len(said)


def _columns(text: str, clock: SourceClock) -> Opened | None:
    match = _GH.match(text)
    if match is None:
        return None
    wall_ns = clock.date_time(match["time"], match["part"], "Z")
    return Opened(text[match.end() :], Tag(f"job {match['job']}", container=match["job"]), wall_ns)


def _has_labels(texts: Sequence[str]) -> bool:
    """Return whether a tab follows the same few hosts in all lines, or few words before what surely are lines."""
    if "\t" not in next((text for text in texts if text and not text.isspace()), ""):
        return False
    said = [match for text in texts if text and not text.isspace() and (match := _LABEL.match(text))]
    lines = sum(bool(text) and not text.isspace() for text in texts)
    labels = {match["label"] for match in said}
    if any(_known(match.string) for match in said[:1]):
        return False
    if len(said) < max(_FEWEST, lines - 1) or len(labels) * 2 > len(said):  # the last line may be a piece
        return False
    if any(map(_LEVEL.fullmatch, labels)):
        return False
    return all(map(may_be_host, labels)) or any(begins_line(match.string[match.end() :]) for match in said)


def _label(text: str, clock: SourceClock) -> Opened | None:
    match = _LABEL.match(text)
    if match is None:
        return None
    host = match["label"] if may_be_host(match["label"]) else ""
    return Opened(text[match.end() :], Tag(match["label"], host=host))


_CLOCKS: Final = tuple(
    by(rf"{opened}\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?{closed}(?: |$)")
    for opened, closed in (("", r" {0,2}\|"), ("", ""), (r"\[", r"\]"), (r"\(", r"\)"))
)


def _clock_of(texts: Sequence[str]) -> Layer | None:
    """Return a layer that takes off the clock before most lines, or None."""
    said = [text for text in texts if text and not text.isspace()]
    for layer in _CLOCKS:
        inner = [opened.text for text in said if (opened := layer(text, _CLOCK)) is not None]
        if len(inner) < max(_FEWEST, _MANY * len(said)):
            continue
        levels = sum(leveled(text) for text in inner)
        if levels * 3 <= len(inner) and longer(inner, enough=True):
            return layer
    return None


_PAIR: Final = 2
_LOOKED_AT: Final = 200
_FEW_WRITERS: Final = 3
_SHORTEST: Final = 3
_LONGEST: Final = 200
_NUMBER: Final = lazy_re(r"\d+")
_TIME: Final = lazy_re(r"\d{1,4}[-/]\d\d(?:[-/]\d\d)?[T ]|\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_LEVEL_COMMON: Final = lazy_re(r"\b(?:DEBUG|TRACE|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b", re.IGNORECASE)
_SURE: Final = lazy_re(
    rf"(?:{BEGINS.pattern})|\S{{1,200}}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:fatal )?(?:error|warning|note): "
)
_DATED: Final = lazy_re(r"\[?\d{4}[-/]\d\d[-/]\d\d(?!.{0,40} kernel: )")
_CLOCK: Final = SourceClock(0, 0)
_EDGES: Final = " \t|:[](){}<>-\u2502#"
_COLUMNS: Final = lazy_re(r"(?:\d{1,9}[ \t|\u2502]{1,8})?1[4-9]\d{8}(?:\d{3}){0,3}[ \t|\u2502]")
"""Numbers alone, of which one counts the time since 1970."""


def _common_prefix(texts: Sequence[str]) -> Layer | None:
    """Return a layer that takes off the prefix of all lines, or None."""
    said = [text for text in texts[:_LOOKED_AT] if text and not text.isspace()]
    timed = bool(said) and all(map(_COLUMNS.match, said[:-1] or said))
    if len(said) < _PAIR or not any(_ends(_common(said[:_PAIR]), timed)) or _known(said[0]):
        return None
    shape = _common(said[: len(said) - (len(said) > _SHORTEST)])
    ends = list(_ends(shape, timed))
    if not ends or any(begins_line(text) and _DATED.match(text) is None for text in said) or _explained(said):
        return None
    for end in ends:
        own = _pattern(shape[:end])
        matches = [match for match in map(own.match, said) if match is not None]
        sure = sum(_SURE.match(match.string[match.end() :]) is not None for match in matches)
        if sure and (sure == len(said) or len(said) > _PAIR):
            return _layer(own) if _name_writers([match[0] for match in matches]) else None
    return None


def _name_writers(prefixes: Sequence[str]) -> bool:
    """Return whether the prefixes, except times in them, are those of few writers: no counters are taken off."""
    writers = [_writer(prefix) for prefix in prefixes]
    different = len(set(writers))
    runs = sum(before != after for before, after in pairwise(writers)) + 1
    return different * 2 <= len(writers) and (runs > different or different <= _FEW_WRITERS)


def _common(texts: Sequence[str]) -> str:
    shapes = [_NUMBER.sub("0", f"{text[:_LONGEST]} ") for text in texts]  # behind a prefix alone, blanks may be gone
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(shapes), max(shapes), strict=False))
    return "".join(one for one, _ in pairs)


def _ends(shape: str, timed: bool) -> Iterator[int]:
    """Yield where a prefix, which has a word unless `timed`, may end after a blank; the shortest first."""
    for blank in re.finditer(r"[ \t](?![ \t|+\u2502])", shape):
        prefix = shape[: blank.end()]
        named = timed or (blank.end() >= _SHORTEST and re.search(r"[A-Za-z]", prefix) is not None)
        if named and _LEVEL_COMMON.search(prefix) is None:
            yield blank.end()


def _layer(own: re.Pattern[str]) -> Layer:

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = own.match(text)
        if match is None:
            return None
        return Opened(text[match.end() :], _tag(match[0]), time_of(match[0], clock))

    return opened


def _known(text: str) -> bool:
    return any(text[0] in one.first and one.open(text, _CLOCK) is not None for one in CERTAIN)


def _pattern(shape: str) -> re.Pattern[str]:
    return re.compile(
        r"\d+".join(map(re.escape, shape.rstrip().split("0")))
        + r"(?:\s{0,8}$|"
        + re.escape(shape[len(shape.rstrip()) :])
        + ")"
    )


def _explained(texts: Sequence[str]) -> bool:
    for guess in GUESSES:
        if texts[0][0] in guess.first:
            inner = [guess.open(text, _CLOCK) for text in texts]
            fitting = [one for one in inner if one is not None]
            sure = any(begins_line(one.text) for one in fitting) or all(one.wall_ns and one.tag.host for one in fitting)
            if len(fitting) * 10 >= len(texts) * 9 and sure:
                return True
    return False


def _writer(prefix: str) -> str:
    """Return the writer in a prefix: without times, and no numbers alone."""
    writer = _TIME.sub("", prefix).strip(_EDGES)
    return "" if _COLUMNS.match(prefix) and not re.search(r"[A-Za-z]", writer) else writer


@lru_cache(maxsize=4096)
def _tag(prefix: str) -> Tag:
    writer = _writer(prefix)
    return Tag(writer) if writer else NO_TAG


_NARROWEST: Final = 60
_WIDEST: Final = 400
_NEAR: Final = 6  # so many characters before the width a filled line may end, and a broken one seldom does
_FEWEST_BROKEN: Final = 2
_USUAL: Final = frozenset((80, 100, 120, 132, 160))
_FRAME: Final = lazy_re(r'[ |+]*File "[^"]+", line \d+(?:, in |$)')
_FRAME_NAME: Final = lazy_re(r", in [\w<.]*$")
_NAME: Final = lazy_re(r"[\w<>.]+")
_FRAME_BEGUN: Final = lazy_re(r'[ |+]*File "')
_MANY_BROKEN: Final = 4
_SOME_BLANK: Final = 16
"""Of so many lines that were broken anywhere, one at least was broken at a blank; text that was filled never is."""
_STRETCHED: Final = lazy_re(r"\w[,.;]? {2,3}\w+ ")
_ALIKE: Final = 24
_HEAD: Final = 12
_QUOTE_OPEN: Final = lazy_re(r".*(?:^|[\s(\[{=:,])'[^']*$", re.DOTALL)
_QUOTE_CLOSED: Final = lazy_re(r"[^']*'(?:$|[\s)\]},.:;])")
_KIND: Final = lazy_re(r"[A-Za-z_.]{0,200}?[A-Z]\w{0,100}(?:Error|Exception)$")
_LAST: Final = lazy_re(r"(?<!\S)\S+$")
_FIRST: Final = lazy_re(r"[\w./-]+")
_LETTERS_LAST: Final = lazy_re(r"(?<![\w.'/-])[a-z]{1,4}$")
_LETTERS_FIRST: Final = lazy_re(r"[a-z]{1,4}(?![\w.'/(=-])")
_VOWEL: Final = lazy_re(r"[aeiouy]")
_SHORT_WORDS: Final = frozenset(
    (
        "a",
        "i",
        "ms",
        "ns",
        "kb",
        "mb",
        "gb",
        "tb",
        "px",
        "vs",
        "nd",
        "rd",
        "st",
        "th",
        "ptr",
        "str",
        "tmp",
        "ctx",
        "cmd",
    )
)
"""Without a vowel, or of one letter, and still words."""


def broken_at(texts: Sequence[str]) -> int:
    """Return the width at which lines were broken; 0 if they were not. The last line may be cut."""
    texts = texts[:-1] if len(texts) > 1 else texts
    texts = texts[1:] if texts[:1] and texts[0].startswith("`") else texts  # Markdown, glued to the first line
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
    headed = [_cut_frame(_without_head(first, rest, texts), rest) for first, rest in pairs]
    if len(full) >= _FEWEST_BROKEN and sum(headed) * 2 >= len(pairs):
        return width
    sure = sum(_goes_on(first, rest) for first, rest in pairs)
    usual = width in _USUAL
    every = [(texts[number], texts[number + 1]) for number in full if number + 1 < len(texts)]
    if len(every) >= _FEWEST and all(_in_a_word(*pair) and _goes_on(*pair) for pair in every):
        return width  # the same line, again and again
    if len(full) >= _FEWEST_BROKEN and sure >= (1 if usual else _FEWEST_BROKEN) and sure * 4 >= len(pairs):
        return width
    after = {number + 1 for number in full}
    heads = {_shape(text, _HEAD) for number, text in enumerate(texts) if number not in after}
    familiar = sum(_shape(rest, _HEAD) in heads or begins_line(rest) for _, rest in pairs)
    inside = sum(first[-1] != " " and rest[:1] not in ("", " ") for first, rest in pairs)
    justified = sum(_STRETCHED.search(first) is not None for first, _ in pairs) * 2 > len(pairs)
    if justified or (inside == len(pairs) >= _SOME_BLANK):
        return 0
    many = _MANY_BROKEN - 1 if usual and not near and not familiar else _MANY_BROKEN
    different = len({_shape(rest, _HEAD) for _, rest in pairs})
    rare = near * 4 <= len(pairs) and familiar * 3 <= len(pairs) and inside * 2 >= len(pairs)
    return width if rare and different >= many else 0


_PADDING: Final = "  "
_PADDED: Final = 0.9  # of the lines


def _padded_to(texts: Sequence[str]) -> int:
    """Return the width up to which nearly all lines were filled with blanks; 0 if none surely goes on in the next."""
    said = [text for text in texts[:-1] if text]
    width = max(map(len, said), default=0)
    filled = [text for text in said if len(text) == width]
    if not _NARROWEST <= width <= _WIDEST or len(filled) < _PADDED * len(said):
        return 0
    blank = sum(text.endswith(_PADDING) for text in filled)
    full = [(first, rest.rstrip(" ")) for first, rest in pairwise(filled) if not first.endswith(_PADDING)]
    sure = any(_goes_on(first, rest) or _cut_frame(first, rest) for first, rest in full)
    return width if blank >= _FEWEST and sure else 0


def _different(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return list({(_shape(first, _ALIKE), _shape(rest, _HEAD)): (first, rest) for first, rest in pairs}.values())


def _is_rule(text: str) -> bool:
    return len(set(text)) <= 3 or text.startswith(("+--", "|", "╭", "│", "╰", "┌", "└"))


def _shape(text: str, size: int) -> str:
    return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "0", text[:size])))


def _cut_frame(first: str, rest: str) -> bool:
    if _FRAME_BEGUN.match(first) is None or _FRAME.match(first + rest) is None:
        return False
    return _FRAME.match(first) is None or (_FRAME_NAME.search(first) is not None and _NAME.fullmatch(rest) is not None)


def _without_head(first: str, rest: str, texts: Sequence[str]) -> str:
    """Return a frame without what its writer puts before each of its lines, but not before a part of one; else ""."""
    head = first.partition('File "')[0].rstrip(" |+") if 'File "' in first else ""
    headed = head and not rest.startswith(head) and sum(text.startswith(head) for text in texts) >= _FEWEST
    return first[len(head) :] if headed else ""


def _goes_on(first: str, rest: str) -> bool:
    """Return whether the second line most likely continues the first."""
    if not rest or begins_line(rest):
        return False
    if first[-1] in " ,([{;" or rest[0] in " \t)]}":
        return False
    if any(first.count(quote) % 2 and rest.count(quote) % 2 for quote in '"`'):
        return True
    if _QUOTE_OPEN.match(first) and _QUOTE_CLOSED.match(rest):
        return True
    return _left_open(first) == _left_closed(rest) != "" or _one_word(first, rest) or _is_split(first, rest)


def _in_a_word(first: str, rest: str) -> bool:
    return first[-1].isalnum() and rest[:1].isalnum()


def _is_split(first: str, rest: str) -> bool:
    """Return whether a word was broken: one of its parts is none (`collectiv`, `e operation`)."""
    if not ("a" <= first[-1] <= "z" and "a" <= rest[:1] <= "z"):
        return False
    parts = (part[0] for part in (_LETTERS_LAST.search(first), _LETTERS_FIRST.match(rest)) if part is not None)
    return any(part not in _SHORT_WORDS and (len(part) == 1 or _VOWEL.search(part) is None) for part in parts)


def _one_word(first: str, rest: str) -> bool:
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
    """Return the bracket that would close the innermost open one of a text, or ""."""
    stack: list[str] = []
    for one in text:
        if one in "([{":
            stack.append(")]}"["([{".index(one)])
        elif stack and one == stack[-1]:
            stack.pop()
    return stack[-1] if stack else ""


def _left_closed(text: str) -> str:
    """Return the first closing bracket of a text that it does not open, or ""."""
    depth = 0
    for one in text:
        if one in "([{":
            depth += 1
        elif one in ")]}":
            if not depth:
                return one
            depth -= 1
    return ""
