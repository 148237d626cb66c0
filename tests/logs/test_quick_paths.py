"""What is done faster for many records gives what is done for one: heads that come again, one trigger alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.logs.clock import SourceClock
from livedbg.logs.decoder import LogDecoder
from livedbg.logs.formats import DATED, DatedHeads, read_dated
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Event, Stamp, StatusSeen
from livedbg.signatures.crashes import CrashDecoder

STAMP = Stamp(host="box", mono_ns=1, wall_ns=2)

_DATES = st.sampled_from(
    [
        "2026-01-02 03:04:05",
        "2026-01-02 03:04:06",
        "2026-01-02T03:04:05",
        "2026/01/02 03:04:05",
        "[2026-01-02 03:04:05",
        "2026-13-02 03:04:05",
        "2026-01-02 03:04:05Z",
    ]
)
_FRACTIONS = st.sampled_from(["", ",123", ",124", ".123", ".12", ".123456", ".", ",1234567890", ".\u0661\u0662\u0663"])
_RESTS = st.sampled_from(
    [
        *(" INFO a", " INFO b", " INFOS a ERROR", " ERROR a", " - root - ERROR - x", " - r00t - ERROR - x", " WARN"),
        *(
            " [error] x",
            " level=warning x",
            " no level",
            "",
            "]",
            "] INFO x",
            "Z INFO x",
            "+01:00 INFO x",
            " +0100 INFO",
        ),
        *("7 INFO x", " | DEBUG | x", " -05 INFO x", " xINFO x", f" {'x' * 114} INFO x", f" {'x' * 115} INFO x"),
    ]
)


@given(st.lists(st.tuples(_DATES, _FRACTIONS, _RESTS), max_size=25))
@pytest.mark.invariant("formats.H1")
def test_H1_a_head_that_comes_again_says_what_it_says_when_it_is_read(lines: list[tuple[str, str, str]]) -> None:
    clock = SourceClock(10**18, 0)
    heads = DatedHeads(clock)
    for line in ("".join(parts) for parts in lines):
        quick, match = heads.quick(line), DATED.match(line)
        if match is None:
            assert quick is None
            continue
        said = read_dated(match, clock)
        assert quick is None or quick == said
        assert heads.read(match, clock) == said


def test_H1_heads_do_come_again() -> None:
    clock = SourceClock(10**18, 0)
    heads = DatedHeads(clock)
    first = DATED.match("2026-01-02 03:04:05,123 - train - INFO - x")
    assert first is not None
    heads.read(first, clock)
    assert heads.quick("2026-01-02 03:04:05,999 - train - INFO - y") is not None


_FRAGMENTS = (
    *("malloc(): bad", "malloc_consolidate(): bad", "free(): invalid pointer", "munmap_chunk(): bad", "realloc(): x"),
    *("*** Error in `a': double free or corruption (out): 0x1 ***", "*** stack smashing detected ***: terminated"),
    *("corrupted size vs. prev_size", "a: b.c:3: f: Assertion `x' failed.", "Aborted (core dumped)", "Aborted"),
    *("run.sh: line 7:  4711 Segmentation fault", "Segmentation fault", "Bus error"),
    *("2 passed in 1.20s", "== 1 failed, 2 passed in 0.12s ==", "FAILED test_a.py::test_b - x", "ray::f()", "detected"),
    *("terminate called without an active exception", "terminate called", "Fatal Python error: Aborted", "Stack dump:"),
    *("Fatal Python error", "Traceback (most recent call first):", "KeyError: 1", "x", "ERROR: AddressSanitizer: x"),
    *("==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", "thread 'main' panicked at a.rs:1:2:"),
)
_TRIGGERS = [word.decode() for word in CrashDecoder().triggers]


@given(st.lists(st.sampled_from(_FRAGMENTS), min_size=1, max_size=3), st.sampled_from(["\n", " ", ": "]))
@example(["x", "malloc(): bad"], "\n")
@example(["x", "malloc(): bad"], " ")
def test_a_crash_by_the_one_trigger_in_it_is_the_crash_that_all_words_tell(parts: list[str], between: str) -> None:
    record = LogRecord(source="log:box/x", text=between.join(parts))
    held = [word for word in _TRIGGERS if word in record.text]
    if len(held) != 1 or record.text.count(held[0]) != 1:
        return
    quick, links = CrashDecoder().alone(held[0].encode())(record, STAMP)
    assert (list(quick), links) == CrashDecoder().feed(record, STAMP)


class _Words(LogDecoder):
    name = "words"
    triggers: ClassVar[tuple[bytes, ...]]

    def __init__(self, words: tuple[bytes, ...], beats: tuple[bytes, ...] = ()) -> None:
        self.triggers, self.beats = words, beats  # type: ignore[misc]
        self.texts: list[str] = []

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        self.texts.append(record.text)
        if "explode" in record.text and self.triggers[0] == b"one":
            raise ValueError("bad record")
        return (), (f"task:{self.triggers[0].decode()}/1",)


def test_records_that_are_searched_at_once_reach_the_decoders_that_each_alone_reaches() -> None:
    texts = [
        "a one",
        "gr\u00f6\u00dfe two",
        "one two",
        "",
        "neither",
        "beat",
        "beat",
        "two beat",
        "on",
        "e",
        '2026-11-21 12:00:00 +0000 a.b: {"log":"one"}',
    ]
    fed = []
    for batches in ([texts], [[text] for text in texts]):
        decoders = [_Words((b"one",)), _Words((b"two",), (b"beat",)), _Words((b"tw", b"o t"))]
        decoding = Decoding(decoders)
        decoding.opened(LogSource(id="log:box/x", name="x"), STAMP)
        links = []
        for batch in batches:
            links += [one.links for one in decoding.feed([LogRecord(source="log:box/x", text=t) for t in batch], STAMP)]
        fed.append(([[text for text in one.texts if text != "beat"] for one in decoders], links))
    assert fed[0] == fed[1]
    assert fed[0][0] == [
        ["a one", "one two"],
        ["gr\u00f6\u00dfe two", "one two", "two beat"],
        ["gr\u00f6\u00dfe two", "one two", "two beat"],
    ]


@pytest.mark.parametrize("text", ["explode one", "explode one three"])
def test_records_behind_one_that_a_decoder_fails_of_reach_the_others(text: str) -> None:
    decoders = [_Words((b"one", b"zero")), _Words((b"two",)), _Words((b"three",))]
    decoding = Decoding(decoders)
    records = [LogRecord(source="log:box/x", text=t) for t in ("two", text, "one", "two", "three", "two three")]
    decoding.feed(records, STAMP)
    assert decoders[0].texts == [text]
    assert decoders[1].texts == ["two", "two", "two three"]
    assert decoders[2].texts == [*([text] if "three" in text else []), "three", "two three"]
    (failed,) = [event for event in decoding.take() if isinstance(event, StatusSeen)]
    assert "ValueError: bad record" in failed.status.sentence
