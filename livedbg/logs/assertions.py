"""Reasons of failed internal assertions, without the condition's macro text and the plea for a bug report.

The form is that of the macros of two C++ frameworks (…_INTERNAL_ASSERT, …_ERROR, …_CHECK, …_THROW, in their exception
headers). The condition comes before the words `INTERNAL ASSERT FAILED`, or after them as `Expected CONDITION . `; the
reason is in the same line, or in the next ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from livedbg.text.patterns import lazy_re

MARK: Final = "INTERNAL ASSERT FAILED"
_LONGEST: Final = 200  # characters of a condition that is said
_BEHIND: Final = 4_000  # lines of one message that are read

_PLEA: Final = lazy_re(
    r"INTERNAL ASSERT FAILED at \"{0,2}(?P<file>[^\s\",]{1,500}?)\"{0,2}:(?P<line>\d{1,9})"
    r"(?:,? ?please report a bug(?:[^.\n]|\.(?=\S)){0,300}(?:\.(?=\s|$)|(?=\n|$))"
    r"|,? ?[a-z ]{0,20}(?:\.\.\.|…)|(?=\n|$))"
    r"[ \t]*(?P<reason>[^\n]*)"
)
_KIND: Final = lazy_re(r"(?:[^\n]{1,400}? - )?(?:[\w.]{0,100}(?:Error|Exception)|Error from [\w ]{1,60}): {1,2}")
"""At the beginning of what stands before a plea in its line; behind it comes the condition that failed."""
_CHECKED: Final = lazy_re(
    r"\A(?P<kind>(?:[\w.]{0,100}(?:Error|Exception): )?)Expected [^\n]{1,300}? \. (?=\S)(?!Found \S{1,60} vs )"
)
_IMPROVED: Final = lazy_re(r" {1,3}\(Could this error message be improved\?[^()\n]{0,120}\)")
"""What a check without words adds to its condition."""
_BARE: Final = lazy_re(r"INTERNAL ASSERT FAILED at [^\s\",]{1,500}:\d{1,9}, please report a bug[^\n]{0,300}\.\s*$")
STACK: Final = lazy_re(r"Exception raised from |frame #\d|C\+\+ CapturedTraceback:")
"""The beginning of a line of the stack of C++ below a message."""
_ENDS: Final = lazy_re(
    r"Exception raised from |frame #\d|\" thrown in |Traceback \(most|Error from |Use [A-Z]{2,20}_DISABLE="
)
_PROMPT: Final = lazy_re(r"^E {2,10}", re.MULTILINE)  # pytest's, before each line of a message
_COMPARED_TEXT: Final = lazy_re(r"\s{0,8}(?:Actual message|Input): ['\"]")  # pytest.raises quotes what was raised
COMPARED: Final = lazy_re(r"[^\s=]{1,60} (?:!=|==|<=?|>=?) [^\s=]{1,60}$")
"""A line of the two values that a check compared."""
_VALUES: Final = lazy_re(r"Found \S{1,60} vs ")
"""The values of a condition; without it they say nothing."""
_NAMES: Final = lazy_re(r"\b(?:error|fatal) {0,4}: ")


_SOURCE: Final = lazy_re(r"//(?:\s|$)|/\*|#(?:include|define|pragma)\b|namespace \w|typedef |template ?<|__global__ ")
"""The beginning of what a check prints behind its plea where that is the code which did not compile."""
_KERNEL: Final = lazy_re(r"\b__global__ void (?:__launch_bounds__\([^()\n]{1,80}\) )?(?P<name>\w{1,300})\(")
_CONTINUES: Final = "= "
"""The beginning of a line that is the other side of what the line above ends with."""


def awaits_reason(line: str) -> bool:
    """Return whether the reason is in the next line: after a plea of the newer form, with no file in quotes."""
    return "please report a bug" in line and _BARE.search(line) is not None


class Assertion(NamedTuple):
    """A failed internal assertion.

    Attributes:
        kind: `RuntimeError: ` or `Error from segmentation group 8: `; "" for none.
        reason: the failure in words; else its condition.
        place: `resize.cpp:210`.
    """

    before: str
    kind: str
    reason: str
    place: str


def asserted_in(message: str) -> Assertion | None:
    """Return the assertion that a message reports, not one that it quotes; of nested ones the inner one."""
    if MARK not in message:
        return None
    message = _PROMPT.sub("", message)
    found = list(_PLEA.finditer(message))
    if not found:
        return None
    match = found[min(1, len(found) - 1)]
    behind = [line.strip() for line in message[match.end() :].split("\n")[1:_BEHIND]]
    end = next((number for number, line in enumerate(behind) if _ENDS.match(line)), len(behind))
    line = message[: match.start()].rpartition("\n")[2].rpartition('"')[2]
    if _COMPARED_TEXT.match(line) is not None:
        return None
    named = _KIND.match(line)
    kind = named[0] if named is not None else ""
    condition = line[len(kind) :]
    reason = reason_of([match["reason"].partition("Exception raised from ")[0], *behind[:end]])
    said = reason or " ".join(filter(None, ("internal assertion", condition[-_LONGEST:].strip(), "failed")))
    before = message[: match.start() - len(kind + condition)] if match is found[0] else ""
    place = f"{match['file'].rpartition('/')[2]}:{match['line']}"
    return Assertion(before, f"{kind.rstrip()} " if kind else "", said.rstrip(".: "), place)


def without_plea(message: str) -> str:
    """Replace an assertion or a check in a message by its reason, or else its condition."""
    message = _IMPROVED.sub("", message)
    if MARK not in message:
        return _CHECKED.sub(r"\g<kind>", message)
    found = asserted_in(message)
    return f"{found.before}{found.kind}{found.reason} ({found.place})" if found is not None else message


def reason_of(lines: Sequence[str]) -> str:
    """Return the most telling of the lines after a plea; for `Expected CONDITION . REASON` the reason."""
    lines = [line.strip() for line in lines if line.strip()]
    if lines and lines[0].startswith("Expected "):
        reason = _expected(lines[0])
        lines = [reason, *lines[1:]] if reason != _condition(lines[0]) or len(lines) == 1 else lines[1:]
    first = lines[0] if lines else ""
    if lines[1:] and lines[1].startswith(_CONTINUES):
        return " ".join((first, *takewhile(_is_operand, lines[1:])))
    if first.endswith(":"):
        quoted = next((after for line, after in pairwise(lines) if line.endswith("error:")), "")
        begun = first.rpartition(". ")[0] or first[:-1]
        return ": ".join((begun, quoted.strip('"'))) if quoted else first
    source = _SOURCE.match(first) is not None
    named = next((line for line in lines if _NAMES.search(line)), "") or _uncompiled(lines) if source else ""
    compared = next((line for line in lines[1:] if COMPARED.match(line)), "")
    return named or (f"{first.rstrip('.')}: {compared}" if compared else first)


def _uncompiled(lines: Sequence[str]) -> str:
    """Return what is said of code that did not compile, without an error of its compiler."""
    kernel = next((found["name"] for line in lines if (found := _KERNEL.search(line)) is not None), "")
    return f"the kernel {kernel} did not compile" if kernel else "the code that it prints did not compile"


def _is_operand(line: str) -> bool:
    return line[:2] in (_CONTINUES, "+ ", "- ", "* ", "/ ")


def _expected(line: str) -> str:
    reason = line.partition(" . ")[2].strip()
    return line.replace(" . ", ": ", 1).strip() if _VALUES.match(reason) else reason or _condition(line)


def _condition(line: str) -> str:
    return line.partition(" . ")[0].removesuffix(" .")[:_LONGEST]
