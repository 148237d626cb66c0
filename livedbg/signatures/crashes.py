"""What crashed, as the logs of any program say it (crashes.toml), and runs of tests in which some failed
(tests.toml, runners.toml).

Invariants:
    crashes.D1. One record reports one crash: the first signature of the file that finds something. Of an abort it is
        the one that says why the program aborted, with the stack of the abort.
    crashes.D2. An exception before the summary of a run of tests was one of a test: the run went on after it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Final, NamedTuple

from msgspec.structs import replace

from livedbg.logs.decoder import Feed, LogDecoder
from livedbg.logs.last_words import ends_tests
from livedbg.model import FAILED_TESTS, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.events import Event, ExceptionSeen, Stamp
from livedbg.signatures.book import Book, Room, parse
from livedbg.signatures.said import Said

_NEWLINE: Final = "\n"
_WHY: Final = 300  # characters of what failed in a test
_ABORTED: Final = ("signal", "SIGABRT")
_ABORTS: Final = ("glibc-abort", "assert", "terminate")
"""Kinds of signatures that say why a program aborts."""

_UNKNOWN: Final = "unknown file"
_MESSAGE_LIMIT: Final = 4096
_REMEMBERED: Final = 10_000  # different crashes whose counts are kept


@cache
def crash_book() -> Book:
    """The signatures of crashes, in the order in which they count."""
    return Book([_room("crashes")])


@cache
def run_book() -> Book:
    """The signatures of runs of tests."""
    return Book([_room("tests"), _room("runners")])


def _room(name: str) -> Room:
    file = f"{name}.toml"
    return parse(name, file, files("livedbg.signatures").joinpath(file).read_bytes())


def crash_in(text: str) -> tuple[Said, int] | None:
    """The crash that a record reports, and the index of the line that names it (D1)."""
    crashes = _crashes_in(text)
    first = next(crashes, None)
    if first is None or (first[0].code, first[0].exception) != _ABORTED:
        return first
    why = next((said for said in crashes if said[0].code in _ABORTS), None)
    return first if why is None else (replace(why[0], stack=why[0].stack or first[0].stack), why[1])


def _crashes_in(text: str) -> Iterator[tuple[Said, int]]:
    book = crash_book()
    for number in book.of_words(text):
        for found in book.entries[number].found(text):
            raised = found.said.raised
            yield found.said, text.count("\n", 0, found.begin) if raised is None else raised


class FailedTest(NamedTuple):
    """A test that failed: the first one of a run.

    Attributes:
        name: of it; "" where only the place is known.
        place: in its source.
        said: what failed.
        summary: the line that says at the end that tests failed; "" before it.
        over: another test has been named since: what follows is not of this one.
        runs: the test that has begun and has not ended; "" where none is known to.
    """

    name: str = ""
    place: str = ""
    said: str = ""
    summary: str = ""
    over: bool = False
    runs: str = ""

    @property
    def head(self) -> str:
        """`Suite.Name, at test.cpp:12`; "" where nothing is known."""
        place = self.place if self.place != _UNKNOWN else ""
        return f"{self.name}, at {place}" if self.name and place else self.name or place

    def with_more(self, text: str, raised: str) -> FailedTest:
        """With what a further text says of it, as far as that was not known.

        Runners print place and reason either before the name (`place`, `why`) or after it (`at`, `because`).

        Args:
            text: of a record.
            raised: the exception that the record reports; "" for none.
        """
        found = {one.said.code: one.said for one in reversed(run_book().found(text))}
        if not found and not (raised and self.name):
            return self
        told = {kind: found[kind].sentence for kind in found}
        runs = told.get("begins", "" if self.runs in (told.get("passed"), told.get("test")) else self.runs)
        named = found["test"].facts.values if "test" in found else {}
        name = self.name or told.get("test", "")
        over = self.over or (bool(self.name) and told.get("test", self.name) != self.name)
        mine = named if name and told.get("test") == name else {}
        place = self.place or ("" if self.name else told.get("place", "")) or mine.get("place", "")
        said = raised if self.name and raised else mine.get("said", "")
        if place and not said:
            said = told.get("why", "")
        if name and not over:
            place, said = self.place or told.get("at", place), said or told.get("because", "")
        return FailedTest(name, place, self.said or said.strip()[:_WHY], told.get("summary", ""), over, runs)


class CrashDecoder(LogDecoder):
    """Makes an `ExceptionSeen` of every record that reports a crash; the same crash again raises its count."""

    name = "crashes"

    def __init__(self) -> None:
        self._process: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}
        self._hits: dict[str, dict[str, ExceptionHit]] = {}
        self._failed: dict[str, FailedTest] = {}  # by log, the first test that failed

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        """See LogDecoder."""
        return (*crash_book().triggers, *run_book().triggers)

    @cached_property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        """See LogDecoder."""
        return {**crash_book().exact, **run_book().exact}

    def opened(self, source: LogSource) -> None:
        """Remember which process writes it."""
        self._process[source.id] = source.process

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """See LogDecoder."""
        events: list[Event] = []
        raised = ""
        if (crash := crash_in(record.text)) is not None:
            said, index = crash
            runs = self._failed.get(record.source, FailedTest()).runs
            if runs and said.code == "signal" and not said.stack:
                said = replace(said, sentence=f"{said.sentence}, in test {runs}")
            message = said.sentence
            raised = f"{said.exception}: {message.partition(_NEWLINE)[0]}"
            if said.code != "traceback" or record.severity.rank >= Severity.ERROR.rank:  # else logged as harmless
                hit = self._hit(record, said, index)
                events.append(ExceptionSeen(hit=hit, **stamp))
                self._remember(hit)
        events += self._tests(record, stamp, raised)
        return events, ()

    def alone(self, trigger: bytes) -> Feed:
        """See LogDecoder: a word that also stands in ordinary lines counts only where a pattern matches."""
        word = trigger.decode()
        patterns = [pattern for entry in crash_book().entries if word in entry.words for pattern in entry.patterns]
        if not patterns or trigger in run_book().triggers:
            return self.feed

        def feed(record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
            found = any(pattern.search(record.text) is not None for pattern in patterns)
            return self.feed(record, stamp) if found else ((), ())

        return feed

    def _tests(self, record: LogRecord, stamp: Stamp, raised: str) -> Iterator[Event]:
        """What a run of tests says at its end; the exceptions before it were those of tests (D2)."""
        failed = self._failed.get(record.source, FailedTest()).with_more(record.text, raised)
        self._failed[record.source] = failed
        if raised:
            return
        if ends_tests(record.text):
            for hit in self._hits.pop(record.source, {}).values():
                yield ExceptionSeen(hit=replace(hit, survived="the test run went on after it"), **stamp)
        if failed.summary:
            del self._failed[record.source]
            more, related = (failed.said, failed.summary) if failed.head else ("", "")
            head = failed.head or failed.summary
            said = Said(system=self.name, code=FAILED_TESTS, exception=head, sentence=more, related=related)
            yield ExceptionSeen(hit=self._hit(record, said, None), **stamp)

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
            logged=said.code == "traceback" and record.head > 0,
        )
