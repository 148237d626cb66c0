"""Crashes in the logs of any program (crashes.toml), and runs of tests with failures (tests.toml, runners.toml,
scripts.toml).

Invariants:
    crashes.D1. One record reports one crash: the first signature of the file that matches. For an abort it is the one
        with the reason, with the stack of the abort.
    crashes.D5. What an exception of C++ says (`what():`) may stand a few lines below the line that names it, where
        others wrote between: it is the message of one that has none.
    crashes.D2. An exception before the summary of a run of tests was one of a test: the run went on after it.
    crashes.D3. All failed tests of a run are reported, each with its own first reason and place.
    crashes.D6. A program's end in what lit printed of a failed test is the reason of the only one that failed, though
        the test is named only in the list below; not where that test wants a crash. What CTest calls an abort is told
        by what the test printed of it.
    crashes.D4. A text that ends in what its runner prints of a failed test tells of that test, which its runner would
        name below, though nothing names it; so does one in which the next test begins without that line. So does a
        piece of pytest's report without the name above it, if it quotes the line of the source above the exception, or
        has a frame, and the test's function or a frame stands above what was raised; no run of tests may be around it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from livedbg.logs.decoder import Feed, LogDecoder
from livedbg.logs.last_words import ends_tests, in_words, telling_line
from livedbg.logs.sanitizers import ENDED, WARNED, place_of
from livedbg.logs.tracebacks import SAYS_FALSE, is_whole
from livedbg.model import CUT_OFF, FAILED_TESTS, TESTS_WENT_ON, ExceptionHit, Frame, LogRecord, LogSource, Severity
from livedbg.model.events import Event, ExceptionSeen, Stamp
from livedbg.signatures.book import Book, Room, parse
from livedbg.signatures.said import Said
from livedbg.signatures.templates import frame_of
from livedbg.text.patterns import lazy_re
from livedbg.text.shortening import shortened

_NEWLINE: Final = "\n"
_WENT_ON: Final = "the run went on after it"
_ENDS_TEST: Final = ("signal", "terminate", "assert")
"""Kinds of crashes that say which test they ended."""
_RUNS: Final = ("session", "starts", "begins", "section", "passed", "test", "summary", "closing")
"""Kinds of what a runner says of a run of tests, besides the report of one that failed."""
_NEW_TEST: Final = ("passed", "test", "begins", "starts", "printed")
"""Kinds behind which what is printed is of another test."""
_WHY: Final = 200  # characters of what failed in a test
_NAMED: Final = 3  # tests that failed, with their reasons in one line
_TESTS: Final = 500  # of one run that are kept
_ABORTED: Final = (("signal", "SIGABRT"), ("fatal-python-error", "Aborted"))
_ABORTS: Final = ("glibc-abort", "assert", "terminate")
"""Kinds of signatures that say why a program aborts."""

_RIGHT_ABOVE: Final = 3  # lines

_WHAT: Final = lazy_re(r"^[^\S\n]{0,8}what\(\): {1,4}(?P<what>\S[^\n]*)", re.MULTILINE)
_RAISED: Final = lazy_re(r"(?!AssertionError: Regex pattern)[\w.]{0,200}(?:Error|Exception|Failure)\b|assert ")
_UNKNOWN: Final = "unknown file"
_TEST: Final = "test_"
_MESSAGE_LIMIT: Final = 4096
_REMEMBERED: Final = 10_000  # different crashes whose counts are kept


@cache
def crash_book() -> Book:
    """Return the signatures of crashes, in order of precedence."""
    return Book([_room("crashes")])


@cache
def run_book() -> Book:
    """Return the signatures of runs of tests."""
    return Book([_room("tests"), _room("runners"), _room("scripts")])


def _room(name: str) -> Room:
    file = f"{name}.toml"
    return parse(name, file, files("livedbg.signatures").joinpath(file).read_bytes())


def crash_in(text: str) -> tuple[Said, int] | None:
    """Return the crash that a record reports, and the index of the line that names it (D1), or None."""
    crashes = _crashes_in(text)
    first = next(crashes, None)
    if first is None or (first[0].code, first[0].exception) not in _ABORTED:
        return first
    why = next((said for said in crashes if said[0].code in _ABORTS), None)
    return first if why is None else (replace(why[0], stack=(*why[0].stack, *first[0].stack)), why[1])


def _crashes_in(text: str) -> Iterator[tuple[Said, int]]:
    book = crash_book()
    for number in book.of_words(text):
        for found in book.entries[number].found(text):
            raised = found.said.raised
            yield found.said, text.count("\n", 0, found.begin) if raised is None else raised


_LISTED: Final = lazy_re(r"listed below:$|% tests passed, [1-9]\d{0,8} tests? failed out of \d")
"""A summary whose runner names below it the tests that failed: GoogleTest's, CTest's."""
_RULE, _DOTS = "-" * 79, "." * 79
"""Of Catch2's headings (lazyPrint of its console reporter)."""
_HEADING: Final = (_RULE.encode(), _DOTS.encode())


class FailedTest(Struct):
    """A failed test; its name is "" if only the place is known.

    `said` is the reason; `status` what its runner says of it without one, `raised` the exception printed right before.
    `fatal`: this was an end of a program, in the output of a failed test whose name is yet to come.
    """

    name: str = ""
    place: str = ""
    said: str = ""
    status: str = ""
    raised: str = ""
    fatal: bool = False

    @property
    def head(self) -> str:
        """Return `Suite.Name, at test.cpp:12`, or ""."""
        place = self.place if self.place != _UNKNOWN else ""
        return f"{self.name}, at {place}" if self.name and place else self.name or place

    @property
    def whole(self) -> str:
        """Return `Suite.Name, at test.cpp:12: check failed`."""
        return ": ".join(filter(None, (self.head, self.why)))

    @property
    def why(self) -> str:
        return self.said or self.status


class TestRun(Struct):
    """A run of tests in a log so far (D3).

    Attributes:
        failed: by name, the failed tests, in order.
        next: data of a test whose name is yet to come.
        runs: the test that has begun and has not ended, or "".
        section: the test whose report is being printed, or "".
        captured: whether its report is at what it had printed: no reason of it.
        raised: by section, the lines of that test's exception.
        placed: by section, where a plain traceback ends in the file of that test; by "", the outermost frame of a
            piece of a report without the test's name.
        quoted: the line of the source that such a piece quotes right above what was raised, or "".
        asserts: the line of the source that the report of a test quotes last, if that asserts something.
        headed: whether a runner has said anything else: its report is no such piece.
        heading: the test that a heading of Catch2 names so far; None outside of one.
        summary: the final line that reports failed tests; "" before it.
        counted: whether the program itself says what failed or how many: it may go on.
        again: whether a run ended just before, whose tests may be listed once more.
        ended: whether a test has failed for a known reason: the run, too, if nothing follows.
        named: whether its runner has said so: the run, too, whatever follows of its tests.
        printed: the failed test whose runner prints below what it printed, or "".
        output: whether a failed test prints this, which lit has named; that line may be missing from the log.
        expects: whether that test wants a program to crash (`not --crash`).
        own: whether the exception of the text is one of such a test, or of that of a section.
        again_passed: whether the text says that a test that had failed has passed since.
        goes_on: whether the text was the beginning or the success of another one.
        unnamed: whether it began another one below one that fails, of which the line that names it is missing.
        over: whether the run has ended, and none has begun since.
        told: the failure of the run, whose tests are named only behind its summary.
        unended: the test that ran at that summary, with what it had said: its runner has named it nowhere else.
    """

    failed: dict[str, FailedTest] = field(default_factory=dict)
    next: FailedTest = field(default_factory=FailedTest)
    runs: str = ""
    section: str = ""
    captured: bool = False
    raised: dict[str, list[str]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    quoted: str = ""
    asserts: str = ""
    headed: bool = False
    heading: str | None = None
    summary: str = ""
    counted: bool = False
    again: bool = False
    ended: bool = False
    named: bool = False
    printed: str = ""
    output: bool = False
    expects: bool = False
    own: bool = False
    again_passed: bool = False
    goes_on: bool = False
    unnamed: bool = False
    over: bool = False
    told: ExceptionHit | None = None
    unended: FailedTest = field(default_factory=FailedTest)

    @property
    def when(self) -> str:
        """Return `in test Net.Two`, `after its tests had ended`, or ""."""
        return f"in test {self.runs}" if self.runs else "after its tests had ended" if self.over else ""

    def take(self, text: str, raised: str, frames: Sequence[Frame] = (), fatal: bool = False) -> None:
        """Take a further text, and the exception that the record reports, or ""; `frames` are of a plain traceback.

        `fatal` is one that ends a program.

        Runners print place and reason either before the name (`place`, `why`) or after it (`at`, `because`).
        """
        places = run_book().found(text)
        every = [one.said for one in places]
        found = {said.code: said for said in reversed(every)}
        begins_at = {one.said.code: one.begin for one in places}
        told = {kind: found[kind].sentence for kind in found}
        if self.runs and told.get("passed") == self.runs and self.next.place and self.next.said:
            told.pop("passed")  # in another process, a rank of the same run: here it has failed
        self._begin(told)
        plain = self._report(every, raised, frames)
        self.output = "output" in told or (self.output and told.keys().isdisjoint(_NEW_TEST))
        self.expects = "expects" in told or (self.expects and self.output)
        if "passed" in told:
            self.next = FailedTest()
        if not raised or not self.failed:
            self.next.place = self.next.place or told.get("place", "")
            self.next.said = self.next.said or _reason(told.get("why", "") if self.next.place else "")
            self._take_raised(raised, fatal)
        named = found["test"].facts.values if "test" in found else {}
        runner_passed = "passed" in found and found["passed"].facts.values.get("status") is not None
        printed = self.printed
        if runner_passed or not told.keys().isdisjoint(("starts", "summary", "closing")):
            self.printed = ""
        self.again_passed = runner_passed and self.failed.pop(found["passed"].sentence, None) is not None
        if name := told.get("test", ""):
            self._name(name, found, every)
            below = "ended" in told and found["ended"].facts.values.get("below")
            self.printed = name if below and begins_at.get("starts", -1) < begins_at["ended"] else ""
        if (runs := self.failed.get(self.runs)) is not None:  # it was named before, in a list
            runs.place, runs.said = runs.place or self.next.place, runs.said or self.next.said or _reason(raised)
        last = next(reversed(self.failed.values()), None)
        if last is not None:
            last.place = last.place or told.get("at", "") or (_place_in(last.name, frames) if printed else "")
            last.said = last.said or _reason(("" if self.expects else raised) or told.get("because", ""))
            if "more" in told and last.said.endswith(("!", ":", "AssertionError")):
                last.said = _reason(f"{last.said}: {told['more']}")
        explained = bool(raised) and last is not None and last.name == printed and last.said == _reason(raised)
        because = explained or bool(told.keys() & {"ended", "because", "more"}) or bool(named.get("said"))
        self.named = because and last is not None and bool(last.why)
        self.ended = self.named or plain or self._failing(found)
        self.own = bool(raised and (plain or printed or (self.captured and self.section)))
        self.goes_on = "begins" in told or "passed" in told
        self.over = (self.over or ends_tests(text)) and not self.goes_on
        self.summary = told.get("summary", "") or (told.get("closing", "") if self.failed and not self.again else "")
        counts = found["summary"].facts.values if "summary" in found else {}
        self.counted = bool((counts or named).get("goes_on"))
        if counts.get("goes_on") and not (counts.get("tests") or self.failed):
            self.summary = ""

    def _take_raised(self, raised: str, fatal: bool) -> None:
        """Take what a test raised; of several ends of programs in what it printed the first one counts (D6)."""
        if not self.next.fatal:
            self.next.raised = raised or self.next.raised
            self.next.fatal = fatal and self.output and not self.expects

    def _begin(self, told: Mapping[str, str]) -> None:
        """Take the beginning or the end of a test."""
        self.unnamed = False
        if begun := told.get("begins", ""):
            if self.runs and self.next.place and self.next.said and len(self.failed) < _TESTS:
                self.unnamed = self.failed.setdefault(self.runs, replace(self.next, name=self.runs)) is not None
            self.runs, self.next = begun, FailedTest()
        elif self.runs in (told.get("passed"), told.get("test")):
            self.runs = ""
        if self.told is not None and ("starts" in told or (begun and begun not in self.failed)):  # another run
            self.told, self.failed = None, {}

    def _report(self, every: Sequence[Said], raised: str, frames: Sequence[Frame]) -> bool:
        """Take what the report of a failed test says; return whether it is by a plain traceback."""
        told = {said.code: said.sentence for said in reversed(every)}
        self.section = told.get("section", self.section)
        if "section" in told or "chained" in told:
            self.raised.pop(self.section, None)
        self.captured = "captured" in told or (self.captured and "section" not in told)
        self.headed = self.headed or self.over or not told.keys().isdisjoint(_RUNS)
        if not self.headed:
            self.next.name = self.next.name or told.get("def", "")
            entry = next((said for said in every if said.code == "entry"), None)
            if entry is not None and (self.next.name or self.placed or self.quoted or not self.raised):
                self.next.name = self.next.name or ("" if self.placed else entry.facts.values.get("test", ""))
                self.placed.setdefault("", entry.sentence)
            if "quoted" in told and not self.raised:
                self.quoted = told["quoted"]
        plain = bool(frames and self.section) and not self.captured and self.section not in self.raised
        if len(self.raised) >= _TESTS:
            return False
        if plain:
            self.raised[self.section] = [raised]
            self.placed[self.section] = _place_in(self.section, frames)
        if "quoted" in told and self.section not in self.raised:
            self.asserts = told["quoted"].strip("`") if "assert" in told["quoted"] else ""
        if "reason" in told:
            lines = self.raised.setdefault(self.section, [])
            lines += (said.sentence for said in every if said.code == "reason")
            false = SAYS_FALSE.fullmatch(lines[0].rpartition("Error: ")[2]) if self.asserts else None
            if false is not None and is_whole(self.asserts):
                lines[0], self.asserts = self.asserts if false["bare"] else f"{lines[0]}: {self.asserts}", ""
        return plain

    def _name(self, name: str, found: Mapping[str, Said], every: Sequence[Said]) -> None:
        """Take the name of a failed test, and those of further ones in the same text."""
        named = found["test"].facts.values
        known = self.failed.setdefault(name, self.next) if len(self.failed) < _TESTS else FailedTest()
        self.next = FailedTest()
        known.name = name
        known.place = known.place or named.get("place", "")
        known.status = named.get("status", "") or known.status
        alone = known.fatal and sum(said.code == "test" for said in every) == len(self.failed) == 1
        known.said = known.said or _reason(named.get("said", "") or (known.raised if known.status or alone else ""))
        for further in (said for said in every if said.code == "test" and len(self.failed) < _TESTS):
            reason, status = _reason(further.facts.values.get("said", "")), further.facts.values.get("status", "")
            self.failed.setdefault(further.sentence, FailedTest(further.sentence, said=reason, status=status))

    def _failing(self, told: Mapping[str, Said]) -> bool:
        """Return whether a text is the last known of why a test fails, which its runner has not named since (D4)."""
        if "why" in told and self.next.said and "place" in told and told["place"].facts.values.get("surely"):
            return True
        if (self.runs or self.next.name) and self.next.place and self.next.said:
            return "place" in told or "why" in told
        raised = self.raised.get(self.section)
        quoted = self.quoted and raised and _RAISED.match(raised[0]) is not None
        known = self.section or ((self.placed or quoted) and not self.headed)
        reported = "reason" in told or (not self.section and "entry" in told)
        return bool(known) and reported and raised is not None

    def said(self) -> Said:
        """Return the message of the summary: the first tests with their reasons, and in further lines all others."""
        failed = sorted(
            self.failed.values(), key=lambda test: CUT_OFF in test.said or (self.told is not None and not test.why)
        )
        if self.told is None and (self.next.name or self.runs) and self.next.said:
            failed.append(replace(self.next, name=self.next.name or self.runs))
        tests = failed or [FailedTest(name) for name in self.raised if name] or [self.next]
        for test in tests:
            section = self._section_of(test.name)
            test.said = _reason("\n".join(self.raised.get(section, ()))) or test.said
            test.place = test.place or self.placed.get(section, "")
        own = next((test for test in failed if test.name == self.unended.name and not test.said), None)
        if own is not None:
            own.said, own.place = self.unended.said or _reason(self.unended.raised), self.unended.place
            tests = [own, *(test for test in failed if test is not own)]
        if self.quoted and not failed:
            frame = frame_of("\n".join(self.raised.get("", ())))
            tests = [replace(tests[0], place=frame or tests[0].place or self.quoted)]
        head = tests[0].head
        if not head:
            return Said(
                system=CrashDecoder.name,
                code=FAILED_TESTS,
                exception=self.summary,
                sentence="" if self.summary else tests[0].why,
            )
        more = [test.whole for test in tests[1:_NAMED]]
        if len(tests) > _NAMED:
            more.append(f"and {len(tests) - _NAMED} more")
        others = [test.whole for test in tests[_NAMED:]]
        named, said = (head, [tests[0].why, *more]) if tests[0].why else ("; ".join((head, *more)), [])
        return Said(
            system=CrashDecoder.name,
            code=FAILED_TESTS,
            exception=named,
            sentence=_NEWLINE.join(("; ".join(said), *others)),
            related=self.summary,
        )

    def _section_of(self, name: str) -> str:
        own = {name, name.partition("::")[2].replace("::", ".")}
        alone = next(iter(self.raised)) if len(self.failed) == len(self.raised) == 1 else ""
        return next((of for of in self.raised if of in own), alone)

    def head(self, line: str) -> None:
        """Take a line for the heading that Catch2 prints once above what fails in a test: rule, name, rule, place."""
        if line == _DOTS and self.heading:
            if self.next.name and self.next.said:
                self.failed.setdefault(self.next.name, self.next)
            self.next, self.heading = FailedTest(self.heading), None
        elif line == _RULE or (self.heading is not None and line != _DOTS):
            self.heading = self.heading or ("" if line == _RULE else line.strip())
        else:
            self.heading = None


def _place_in(name: str, frames: Sequence[Frame]) -> str:
    """Return the innermost place in the file of the function of a test, `test_sum.py:31`, or "".

    A test that is made for each device has its name at the end of the function's, as `test_sum_meta`.
    """
    function = name.partition(" (")[0].rpartition(".")[2].partition("[")[0]
    own = (
        f for f in frames if f.function == function or (_TEST in f.function and function.startswith(f.function + "_"))
    )
    file = next((frame.file for frame in own), None)
    inner = next((frame for frame in frames if file and frame.file == file), None)
    return f"{(inner.file or '').rpartition('/')[2]}:{inner.line}" if inner is not None and inner.line else ""


def _reason(text: str) -> str:
    return shortened(in_words(" ".join(telling_line(text.strip()).split())), _WHY) if text else ""


class CrashDecoder(LogDecoder):
    """Makes an `ExceptionSeen` of every record that reports a crash; a repeated crash raises its count."""

    name = "crashes"

    def __init__(self) -> None:
        self._process: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}
        self._hits: dict[str, dict[str, ExceptionHit]] = {}
        self._runs: dict[tuple[str, str], TestRun] = {}  # by log, and who writes it
        self._ended: dict[tuple[str, str], ExceptionHit] = {}  # of a test that was the last so far
        self._told: dict[tuple[str, str], str] = {}  # of a run: the exception that each further failed test says anew
        self._nameless: set[tuple[str, str]] = set()  # where its runner has not said that it failed

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return (*crash_book().triggers, *run_book().triggers, *_HEADING)

    opens = _HEADING

    @cached_property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        return {**crash_book().exact, **run_book().exact}

    def opened(self, source: LogSource) -> None:
        self._process[source.id] = source.process

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        events: list[Event] = []
        raised = ""
        crash = crash_in(record.text)
        if crash is None and record.head:
            crash = crash_in(record.text[record.head :])
        if crash is not None:
            said, index = crash
            when = self._runs.get((record.source, record.writer), TestRun()).when
            message = said.sentence
            if when and said.code in _ENDS_TEST:
                first, newline, rest = message.partition(_NEWLINE)
                message = f"{first.rstrip(' .')}, {when}{newline}{rest}"
                said = replace(said, sentence=message)
            place = place_of(said.stack) if said.code in (ENDED, WARNED) else ""
            raised = ", in ".join(filter(None, (said.exception, place)))
            raised = f"{raised}: {message.partition(_NEWLINE)[0]}"
            if said.code != "traceback" or record.severity.rank >= Severity.ERROR.rank:  # else logged as harmless
                hit = self._aborted(record, said) or self._hit(record, said, index)
                events.append(ExceptionSeen(hit=hit, **stamp))
                self._remember(hit)
        elif (known := self._explained(record)) is not None:
            events.append(ExceptionSeen(hit=known, **stamp))
            self._remember(known)
        plain = crash is not None and crash[0].code == "traceback" and not record.head
        fatal = crash is not None and crash[0].code in (*_ENDS_TEST, ENDED)
        events += self._tests(record, stamp, raised, crash[0].stack if crash is not None and plain else (), fatal)
        return events, ()

    def alone(self, trigger: bytes) -> Feed:
        """Return a `feed` for a word that is also in ordinary lines: it counts only if a pattern matches."""
        word = trigger.decode()
        patterns = [pattern for entry in crash_book().entries if word in entry.words for pattern in entry.patterns]
        if not patterns or trigger in run_book().triggers:
            return self.feed

        def feed(record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
            found = any(pattern.search(record.text) is not None for pattern in patterns)
            return self.feed(record, stamp) if found else ((), ())

        return feed

    def _tests(
        self, record: LogRecord, stamp: Stamp, raised: str, frames: Sequence[Frame], fatal: bool
    ) -> Iterator[Event]:
        """Yield the result of a run of tests at its end; earlier exceptions were those of tests (D2)."""
        of = (record.source, record.writer)
        run = self._runs.setdefault(of, TestRun())
        run.head(record.text.partition(_NEWLINE)[0])
        run.take(record.text, raised, frames, fatal)
        if run.unnamed:
            self._nameless.discard(of)
        over = (raised and not run.own) or run.summary or run.goes_on or ends_tests(record.text)
        before = self._ended.pop(of, None) if over else None
        if before is not None and (raised or not run.summary):
            another = raised and not any(test.status for test in run.failed.values())  # CTest outlives its tests
            went_on = _WENT_ON if another or run.again_passed or of in self._nameless else TESTS_WENT_ON
            yield ExceptionSeen(hit=replace(before, survived=went_on), **stamp)
        if run.told is not None and run.failed:
            said = run.said()
            named = replace(
                run.told,
                type=said.exception,
                message=said.sentence[:_MESSAGE_LIMIT],
                related=run.told.related or run.told.type,
            )
            yield ExceptionSeen(hit=named, **stamp)
        if raised and not run.own:
            return
        if ends_tests(record.text) or run.printed or run.own:
            for hit in self._hits.pop(record.source, {}).values():
                if ends_tests(record.text) or (
                    hit.writer == record.writer and (run.printed or hit.first_line == record.line)
                ):
                    yield ExceptionSeen(hit=replace(hit, survived=TESTS_WENT_ON), **stamp)
                else:
                    self._remember(hit)
        if run.summary:
            hit, listed = self._hit(record, run.said(), None), _LISTED.search(record.text) is not None
            hit = replace(hit, id=self._told.pop(of, hit.id), logged=run.counted)
            unended = replace(run.next, name=run.runs)
            told = hit if listed and not run.failed else None
            self._runs[of] = TestRun(again=True, over=True, told=told, unended=unended)
            yield ExceptionSeen(hit=hit, **stamp)
        elif run.ended and run.told is None:
            hit = replace(self._hit(record, run.said(), None), logged=run.counted)
            self._seen.pop(hit.id.rpartition("/")[2], None)
            (self._nameless.discard if run.named else self._nameless.add)(of)
            self._ended[of] = replace(hit, id=self._told.setdefault(of, hit.id))
            yield ExceptionSeen(hit=self._ended[of], **stamp)

    def _aborted(self, record: LogRecord, said: Said) -> ExceptionHit | None:
        """Return the exception right above an abort that is its reason, with the abort's stack (D1), or None."""
        before = next(reversed(self._hits.get(record.source, {}).values()), None)
        if before is None or (said.code, said.exception) not in _ABORTED or before.writer != record.writer:
            return None
        near = (record.line or 0) - (before.line or 0) <= _RIGHT_ABOVE
        why = (before.catchpoint or "").removeprefix("log: ") in _ABORTS and len(before.stack) <= 1
        stack = (*before.stack, *said.stack)
        return replace(before, stack=stack, line=record.last_line) if why and near and said.stack else None

    def _explained(self, record: LogRecord) -> ExceptionHit | None:
        """Return the exception of C++ a few lines above that a record gives the message of (D5), or None."""
        said = _WHAT.search(record.text) if "what():" in record.text else None
        before = next(reversed(self._hits.get(record.source, {}).values()), None) if said is not None else None
        if said is None or before is None or before.catchpoint != "log: terminate" or before.message:
            return None
        near = (record.line or 0) - (before.line or 0) <= _RIGHT_ABOVE and record.writer in ("", before.writer)
        return replace(before, message=said["what"].strip()[:_MESSAGE_LIMIT], line=record.last_line) if near else None

    def _remember(self, hit: ExceptionHit) -> None:
        known = self._hits.setdefault(hit.source or "", {})
        if len(known) < _REMEMBERED:
            known[hit.id] = hit

    def _hit(self, record: LogRecord, said: Said, index: int | None) -> ExceptionHit:
        places = (f"{frame.function} {frame.file} {frame.line}" for frame in said.stack)
        parts = [record.source, record.writer, said.exception, said.sentence, *places]
        digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
        if len(self._seen) > _REMEMBERED:
            self._seen.clear()
        count = self._seen[digest] = self._seen.get(digest, 0) + 1
        return ExceptionHit(
            id=f"exception:log/{digest}",
            type=said.exception,
            message=said.sentence[:_MESSAGE_LIMIT],
            process=self._process.get(record.source),
            stack=said.stack,
            at_wall_ns=record.wall_ns,
            catchpoint=f"log: {said.code}",
            count=count,
            source=record.source,
            line=record.last_line,
            first_line=record.line,
            raised_line=record.line_at(index) if index is not None else None,
            related=said.related,
            writer=record.writer,
            logged=said.code == "traceback" and (record.head > 0 or _ended_a_part(said)),
        )


def _ended_a_part(said: Said) -> bool:
    """Return whether an exception ended only a thread, as threading's hook writes, or a request that PHP served."""
    outermost = said.stack[-1] if said.stack else None
    if outermost is None or outermost.language == "php":
        return outermost is not None
    return outermost.function.startswith("_bootstrap") and "threading" in (outermost.file or "")
