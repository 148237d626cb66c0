"""Tests in logs, by the lines in which their runners say that one begins, has passed or has failed.

Invariants:
    tested.P1. An error between the beginning of a test and the line in which the same writer says that it passed
        failed nothing: the test expects it, or does not depend on it. If another test of the same runner begins in
        between, several programs write the log and nothing is known. Nothing is known of a test that has not ended.
    tested.P2. In a text that begins within a test, so does what stands above the first line of its runner, if that
        says that a test has passed.
    tested.P3. What CTest prints below a failed test was that test's output: no progress of anything.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.logs.last_words import ends_tests, says_passed
from livedbg.model import LogRecord
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import listing

_TEST_BEGINS: Final = ("begins", "section")
_TEST_ENDS: Final = ("passed", "test")
_RUN_ENDS: Final = ("summary", "closing")
_ALL: Final = frozenset((*_TEST_BEGINS, *_TEST_ENDS, *_RUN_ENDS, "because", "starts", "opens"))
_CTEST: Final = "ctest"
_GOOGLETEST: Final = "googletest"
_ENDLESS: Final = 2**62
_NESTED: Final = 8
"""So many tests, at most, run within each other."""


class TestMark(NamedTuple):
    """A record in which a test begins (`name`), or ends (""; `ends` has failed), by what its runner prints."""

    first: int
    last: int
    name: str
    ends: str = ""


class _Said(NamedTuple):
    """What a runner says in a line: of kind `begins`, `starts`, `passed`, `test`, …."""

    kind: str
    name: str
    runner: str
    line: int
    failed: bool


class _Stream(Struct):
    """The tests of a log and a writer.

    Attributes:
        marks: where tests begin and end, for `test_at`.
        passed: the lines of each test that has passed, from its beginning to its end, and its name.
        printed: the lines of what CTest printed of tests that have failed.
        last: the last line of a runner.
        newest: the last test that has begun.
        begun: by runner and test, how often it has begun; `open`: where, if it has not ended.
        unclear: open ones between whose lines another test has begun.
        programs: runs of tests that have begun and not ended.
    """

    marks: list[TestMark] = field(default_factory=list)
    passed: list[tuple[int, int, str]] = field(default_factory=list)
    printed: list[tuple[int, int]] = field(default_factory=list)
    last: int = 0
    newest: str = ""
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)
    open: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    unclear: set[tuple[str, str]] = field(default_factory=set)
    programs: int = 0


class _Kept:
    """The streams of the newest records that were asked for."""

    def __init__(self) -> None:
        self._of: Sequence[LogRecord] = ()
        self._streams: dict[tuple[str, str], _Stream] = {}

    def of(self, snapshot: Snapshot) -> Mapping[tuple[str, str], _Stream]:
        if self._of is not snapshot.recent_logs:
            self._of, self._streams = snapshot.recent_logs, _streams(snapshot.recent_logs)
        return self._streams


_KEPT: Final = _Kept()


def test_marks(snapshot: Snapshot) -> dict[tuple[str, str], list[TestMark]]:
    """Return where tests begin and end, by log and writer, in order."""
    return {of: stream.marks for of, stream in _KEPT.of(snapshot).items()}


def test_at(line: int, marks: Sequence[TestMark]) -> str:
    """Return the test that ran at a line, or ""; the end of a test behind it may stand in the same record."""
    told = (one for one in reversed(marks) if (one.first <= line if one.name else one.last < line))
    return next((one.name for one in told), "")


def passed_around(log: str, writer: str, lines: Iterable[int], snapshot: Snapshot) -> str:
    """Return the test that has passed around each of some lines of a writer (P1, P2), of several the last; or ""."""
    passed = _KEPT.of(snapshot).get((log, writer), _Stream()).passed  # in the order of their ends
    names = []
    for line in lines:
        at = bisect_right(passed, line, key=lambda test: test[1])
        names.append(next((name for first, _, name in passed[at : at + _NESTED] if first <= line), ""))
    return names[-1] if names and all(names) else ""


def printed_of_failed(log: str, line: int, snapshot: Snapshot) -> bool:
    """Return whether a line is of the output of a test that has failed, as CTest prints it (P3)."""
    return any(_holds(stream.printed, line) for (of, _), stream in _KEPT.of(snapshot).items() if of == log)


def _holds(printed: Sequence[tuple[int, int]], line: int) -> bool:
    """Return whether a line is between those of one of some pairs, which are in order."""
    at = bisect_left(printed, line, key=lambda pair: pair[0]) - 1
    return at >= 0 and printed[at][0] < line < printed[at][1]


def last_of_tests(log: str, snapshot: Snapshot) -> int:
    """Return the last line of a runner of tests in a log, or 0."""
    return max((stream.last for (of, _), stream in _KEPT.of(snapshot).items() if of == log), default=0)


def tests_open(snapshot: Snapshot) -> str:
    """Return `Begun and not ended: Net.Two (ranks 0 and 1)`, or ""; one that began several times says how often."""
    of: dict[str, list[str]] = {}
    for (_, writer), stream in _KEPT.of(snapshot).items():
        for (runner, name), lines in stream.open.items():
            if runner != _CTEST and name != stream.newest:
                continue
            whose, begun = of.setdefault(name, []), stream.begun[runner, name]
            often = f"{len(lines)} of {begun} times" if len(lines) < begun else f"{begun} times"
            whose += filter(None, (writer, often if begun > 1 else ""))
    said = (f"{name}{f' ({listing(whose)})' if whose else ''}" for name, whose in of.items())
    return f"Begun and not ended: {listing(said)}" if of else ""


def _streams(records: Iterable[LogRecord]) -> dict[tuple[str, str], _Stream]:
    found: dict[tuple[str, str], _Stream] = {}
    whole: dict[str, bool] = {}
    for record in records:
        whole.setdefault(record.source, record.line == 1)
        said = list(_said(record, found.get((record.source, record.writer))))
        if said or ends_tests(record.text):
            stream = found.setdefault((record.source, record.writer), _Stream())
            _mark(stream, record, said)
            for one in said:
                _take(stream, one, whole[record.source])
            if ends_tests(record.text):
                stream.programs = max(stream.programs - 1, 0)
                stream.last = max(stream.last, record.line or 0)
    return found


def _said(record: LogRecord, stream: _Stream | None) -> Iterator[_Said]:
    """Yield what runners say in a record, in order."""
    from livedbg.signatures.crashes import run_book  # logs only: a look at processes is done before

    if record.line is None:
        return
    text = record.text[record.head :]
    if stream is not None and stream.open and says_passed(text):
        of = [(runner, name) for runner, name in stream.open if runner not in (_CTEST, _GOOGLETEST)]
        yield from (_Said("passed", name, runner, record.line, False) for runner, name in of[:1])
    for one in sorted(run_book().found(text), key=lambda one: one.begin):
        if one.said.code in _ALL:
            runner = one.entry.signature.id.partition("-")[0]
            line = record.line_at(text.count("\n", 0, one.begin)) or record.line
            failed = bool(one.said.facts.values.get("status")) and "***" in text
            yield _Said(one.said.code, one.said.sentence, runner, line, failed)


def _mark(stream: _Stream, record: LogRecord, said: Sequence[_Said]) -> None:
    told = {("begins" if one.kind == "starts" else one.kind): one.name for one in reversed(said) if _alone(one)}
    if record.line is None or told.keys().isdisjoint((*_TEST_BEGINS, *_TEST_ENDS, *_RUN_ENDS, "because")):
        return
    last, of = record.last_line or record.line, stream.marks
    begun = next((told[kind] for kind in _TEST_BEGINS if kind in told), "")
    if "because" in told and of and of[-1].ends:  # what a list of failed tests quotes below a name
        of += [TestMark(record.line, last, of[-1].ends), TestMark(last, last, "", of[-1].ends)]
    else:
        of.append(TestMark(record.line, last, begun, "" if begun else told.get("test", "")))


def _alone(said: _Said) -> bool:
    """Return whether no other test can run now: CTest starts several at once."""
    return said.kind != "starts" or said.runner != _CTEST


def _take(stream: _Stream, said: _Said, whole: bool) -> None:
    of, first = (said.runner, said.name), not stream.last
    own = [key for key in stream.open if key[0] == said.runner]
    if said.runner == _CTEST or said.kind in _RUN_ENDS:
        _printed(stream, said.line)
    if said.kind == "opens":
        stream.programs += 1
    elif said.kind in ("begins", "starts"):
        if own or stream.programs > 1:
            stream.unclear.update((*own, of))
        stream.newest = said.name
        stream.begun[of] += 1
        stream.open.setdefault(of, []).append(said.line)
    elif said.kind in _TEST_ENDS:
        begun = stream.open.get(of, [])
        begins = begun.pop() if begun else 0 if first and whole and said.runner == _GOOGLETEST else None
        if said.kind == "passed" and begins is not None and of not in stream.unclear:
            stream.passed.append((begins, said.line, said.name))
        if not begun:
            stream.open.pop(of, None)
            stream.unclear.discard(of)
        if said.runner == _CTEST and said.failed:
            stream.printed.append((said.line, _ENDLESS))
    if said.kind not in ("section", "because"):
        stream.last = max(stream.last, said.line)


def _printed(stream: _Stream, line: int) -> None:
    """End the output of a failed test that is being printed."""
    if stream.printed and stream.printed[-1][1] == _ENDLESS:
        stream.printed[-1] = (stream.printed[-1][0], line)
