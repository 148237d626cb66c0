"""How runs of tests end, as pytest, unittest, GoogleTest, ctest and others sum up, and which test failed first.

Sources: _pytest/terminal.py; CPython Lib/unittest/runner.py; GoogleTest googletest/src/gtest.cc
(PrettyUnitTestResultPrinter); CMake Source/CTest/cmCTestTestHandler.cxx.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["TEST_WORDS", "FailedTest", "ends_tests", "failures"]

_TESTS: Final = re.compile(
    r"^=* ?(?:\d+ [a-z]+, )*\d+ (?:passed|failed|skipped|errors?|warnings?) in \d+\.\d+ ?s\b"
    r"|^\[={10}\] \d+ tests? from \d+ test (?:suites?|cases?) ran\."
    r"|^Ran \d+ tests? in \d+\.\d+s|^\d{1,3}% tests passed, \d+ tests? failed out of \d+"
    r"|(?:^|[ :=])\d+ passed,? (?:and )?\d+ failed\b",
    re.MULTILINE,
)
"""The last lines of a run of tests."""
_IN_EACH: Final = (" in ", " ran.", " passed")

_FAILED: Final = re.compile(
    r"\b[1-9]\d* (?:failed|errors?)\b|\b[1-9]\d* tests? failed out of"
    r"|^FAILED \((?:failures|errors)=\d",
    re.MULTILINE,
)
_LATER: Final = re.compile(
    r"^\[  FAILED  \] [1-9]\d* tests?(?=, listed below:)|^FAILED \((?:failures|errors)=\d[^)\n]*\)"
    r"|^test result: FAILED\. \d{1,9} passed; [1-9]\d* failed|^FAIL\t\S{1,300}\t[\d.]{1,12}s",
    re.MULTILINE,
)
"""What says that tests failed where the summary itself does not."""
_NAMED: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^\[  FAILED  \] (?P<name>[\w/.<>:-]{1,300}\.[\w/<>:-]{1,300})",
        r"^(?:FAIL|ERROR): (?P<name>test\w{0,200} \([\w.]{1,300}\))",
        r"^(?:FAILED|ERROR) (?!\()(?P<name>[^\s:]{1,300}\.py(?:::\S[^\n]{0,300}?)?)(?: - (?P<said>[^\n]{1,400}))?$",
        r"^ {0,8}--- FAIL: (?P<name>\S{1,300}) \([\d.]{1,12}s\)(?:\n\s{1,20}(?P<said>\S[^\n]{0,300}))?",
        r"^test (?P<name>\S{1,300}) \.\.\. FAILED",
        r"^\s{0,8}\d{1,6}/\d{1,6} Test {1,6}#\d{1,6}: (?P<name>\S{1,200}) [ .]{0,200}"
        r"\*\*\*(?P<said>[A-Z][\w: ]{1,60}?) {2,}",
        r"^[^\S\n]+\d{1,6} - (?P<name>\S{1,200}) \((?P<said>[\w ]{1,40})\)",
    )
)
"""Of GoogleTest, unittest, pytest, Go, Rust and ctest: a test that failed, and why where the line says so."""
_PLACE: Final = re.compile(r"^(?P<place>(?:unknown file|[^\s:]{1,300}:\d{1,9})): Failure$", re.MULTILINE)
_WHY: Final = re.compile(
    r"^(?:(?:Expected|Value of|Actual): |Expected equality of these values:|The difference between "
    r"|C\+\+ exception with)[^\n]{0,300}(?:\n[^\n]{1,300}){0,4}",
    re.MULTILINE,
)
"""What GoogleTest prints below a place."""
_LONGEST: Final = 300

TEST_WORDS: Final = (
    *(
        f" {word} in "
        for word in ("passed", "failed", "skipped", "error", "errors", "warning", "warnings", "deselected", "xfailed")
    ),
    *(
        "--- FAIL: ",
        "FAIL\t",
        "test result: FAILED",
        "... FAILED",
        "***Failed",
        "***Exception: ",
        "***Timeout",
        "***Not Run",
    ),
    *(".py - ", "Expected equality of these values:", "Expected: ", "Value of: ", "C++ exception with"),
    *("FAILED ", "[  FAILED  ]", "[==========] ", ": Failure", "FAIL: test", "ERROR: test", "% tests passed"),
    *(" passed, ", " passed and ", "tests in ", "test in ", "- Failed)", "(Failed)", "(SEGFAULT)", "(Timeout)"),
)
"""What a text with one of them holds."""


class FailedTest(NamedTuple):
    """A test that failed.

    Attributes:
        name: of it; "" where only the place is known.
        place: in its source.
        said: what failed.
    """

    name: str = ""
    place: str = ""
    said: str = ""

    @property
    def head(self) -> str:
        """`Suite.Name, at test.cpp:12`; "" where nothing is known."""
        place = self.place if self.place != "unknown file" else ""
        return f"{self.name}, at {place}" if self.name and place else self.name or place

    def with_more(self, text: str, raised: str) -> FailedTest:
        """With what a further text says of it, as far as that was not known.

        Args:
            text: of a record.
            raised: the exception that the record reports; "" for none.
        """
        if not raised and not any(word in text for word in TEST_WORDS):
            return self
        place = _PLACE.search(text)
        named = next((match for pattern in _NAMED if (match := pattern.search(text)) is not None), None)
        name = self.name or (named["name"].strip() if named is not None else "")
        where = self.place or (place["place"] if place is not None and not self.name else "")
        said = raised if self.name and raised else ""
        if named is not None and not said and self.name in ("", named["name"].strip()):
            said = named.groupdict().get("said") or ""
        if where and not said and (why := _WHY.search(text)) is not None:
            said = " ".join(why[0].split())
        return FailedTest(name, where, self.said or said.strip()[:_LONGEST])


def ends_tests(text: str) -> bool:
    """Whether a run of tests ends in a text."""
    return any(word in text for word in _IN_EACH) and _TESTS.search(text) is not None


def failures(text: str) -> str:
    """The line that says that tests failed, of a text that may hold one; else ""."""
    summary = _TESTS.search(text)
    if summary is not None and _FAILED.search(summary[0]) is not None:
        end = text.find("\n", summary.end())
        begin = text.rfind("\n", 0, summary.end()) + 1
        return text[begin : end if end >= 0 else len(text)].strip("= ")
    later = _LATER.search(text)
    return later[0].strip() if later is not None else ""
