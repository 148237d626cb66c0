"""Words in sentences: counted nouns, the initial capital, and the full stop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from livedbg.text.patterns import lazy_re


def many(count: int, one: str, several: str = "") -> str:
    """Return `1 thread`, `4,201 threads`; `1 tensor has no values`, `2 tensors have no values`.

    `several` is by default the regular plural of `one`.
    """
    return f"{count:,} {one if count == 1 else several or _plural(one)}"


def listing(words: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`; "" for nothing."""
    *before, last = [*words] or [""]
    return f"{', '.join(before)} and {last}" if before else last


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("ch", "sh", "s", "x")) else f"{noun}s"


def sentence_case(text: str) -> str:
    """Return a text with its first letter in upper case and the rest unchanged, unlike `str.capitalize`.

    `thread 7 (DataLoader_GPU0)` becomes `Thread 7 (DataLoader_GPU0)`. A name keeps its letters only if it does not come
    first: if it might, begin the sentence with its kind (`process`, `thread`, `rank`).
    """
    return f"{text[:1].upper()}{text[1:]}"


def clause(text: str) -> str:
    """Return a sentence without its full stop, as a part of another one."""
    return text.rstrip(".")


def sentences(*parts: str) -> str:
    """Join the non-empty parts, each with one full stop: `It failed. It was retried.`"""
    return " ".join(f"{clause(part)}." for part in parts if part)


def split_brackets(text: str) -> tuple[str, str]:
    """Return a text without the places that it has in brackets, and the last of these: ` (libvalve.so)`."""
    return _IN_BRACKETS.sub("", text), "".join(_IN_BRACKETS.findall(text)[-1:])


_IN_BRACKETS: Final = lazy_re(r" \((?=[^\s()]{0,300}[./:])[^\s()]{1,300}\)")
_PHRASES: Final = 3
_FIRST: Final = lazy_re(r".{20,}?(?=\. (?:[A-Z\d]|[\w./@+-]{1,120}\.\w{1,8}: ))", re.DOTALL)
"""A first sentence that others follow, or what is said of another log."""


def with_phrases(text: str, phrases: Mapping[str, str]) -> str:
    """Return a text with phrases at the end of its first sentence: `…, called from fill.py:9. 1 more error.`

    `phrases` are those, each with the words in it that are not said twice; "" for all of them.
    """
    first = _FIRST.match(text)
    begun = first[0] if first is not None else text.rstrip(".")
    more = [phrase for phrase, words in phrases.items() if not _has_words(text, words or phrase)][:_PHRASES]
    head = begun.rstrip(" :") if more else begun
    return f"{', '.join((head, *more))}{text[len(begun) :] or '.'}"


def _has_words(text: str, words: str) -> bool:
    """Return whether words are in a text, and not within others: `or` is not in `Aborted`."""
    return words in text and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


_STOPS: Final = lazy_re(r"(?<=[!?…])\.(?=\s|$)|:(?=\.(?:\s|$))|(?<!\.)\.(?=\.(?:\s|$))")


def with_one_stop(text: str) -> str:
    """Return a text whose sentences end with one mark each, though what they quote had its own: not `Failed!.`."""
    return _STOPS.sub("", text)


def spans(numbers: Iterable[int]) -> str:
    """Return `0-2,5`: the distinct numbers, in order."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
