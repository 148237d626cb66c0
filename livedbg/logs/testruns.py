"""How runs of tests end, as pytest, unittest, GoogleTest, ctest and others sum up, and which test failed first.

Sources: _pytest/terminal.py; CPython Lib/unittest/runner.py; GoogleTest googletest/src/gtest.cc
(PrettyUnitTestResultPrinter); CMake Source/CTest/cmCTestTestHandler.cxx.

Invariants:
    testruns.T3. An exception before a summary was one of a test: the run went on after it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["TEST_WORDS", "FailedTest", "ends_tests", "failed_test", "failures"]

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
    r"^\[  FAILED  \] [1-9]\d* tests?(?=, listed below:)|^FAILED \((?:failures|errors)=\d[^)\n]*\)", re.MULTILINE
)
"""What says that tests failed where the summary itself does not."""
_PYTEST: Final = re.compile(r"^FAILED (?P<name>[^\n]{1,400})", re.MULTILINE)
_UNITTEST: Final = re.compile(r"^(?:FAIL|ERROR): (?P<name>test\w{0,200} \([\w.]{1,300}\))", re.MULTILINE)
_GTEST: Final = re.compile(r"^\[  FAILED  \] (?P<name>[\w/.<>:-]{1,300}\.[\w/<>:-]{1,300})", re.MULTILINE)
_PLACE: Final = re.compile(
    r"^(?P<place>(?:unknown file|[^\s:]{1,300}:\d{1,9})): Failure$(?:\n(?P<said>[^\n]{1,300}))?", re.MULTILINE
)
_CTEST: Final = re.compile(r"^[^\S\n]+\d{1,6} - (?P<name>\S{1,200}) \((?P<how>[\w ]{1,40})\)", re.MULTILINE)

TEST_WORDS: Final = (
    *(
        f" {word} in "
        for word in ("passed", "failed", "skipped", "error", "errors", "warning", "warnings", "deselected", "xfailed")
    ),
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
    def words(self) -> str:
        """`Suite.Name, at test.cpp:12: Expected …`."""
        place = f", at {self.place}" if self.place and self.place != "unknown file" else ""
        return f"{self.name}{place}{f': {self.said}' if self.said else ''}"


def ends_tests(text: str) -> bool:
    """Whether a run of tests ends in a text."""
    return any(word in text for word in _IN_EACH) and _TESTS.search(text) is not None


def failed_test(text: str) -> FailedTest | None:
    """The first test of a text that failed, or the place where one did."""
    place = _PLACE.search(text)
    where, said = (place["place"], (place["said"] or "").strip()) if place is not None else ("", "")
    match = _GTEST.search(text) or _UNITTEST.search(text) or _PYTEST.search(text)
    if match is not None and not match["name"].startswith("("):
        return FailedTest(match["name"].strip(), where, said)
    if place is not None:
        return FailedTest("", where, said)
    test = _CTEST.search(text)
    return FailedTest(test["name"], "", test["how"]) if test is not None else None


def failures(text: str) -> str:
    """The line that says that tests failed, of a text that may hold one; else ""."""
    summary = _TESTS.search(text)
    if summary is not None and _FAILED.search(summary[0]) is not None:
        end = text.find("\n", summary.end())
        begin = text.rfind("\n", 0, summary.end()) + 1
        return text[begin : end if end >= 0 else len(text)].strip("= ")
    later = _LATER.search(text)
    return later[0].strip() if later is not None else ""
