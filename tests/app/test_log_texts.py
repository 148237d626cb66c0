"""What the Logs screen makes of records: messages without what stands in columns, equal lines of ranks, marks."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import Line
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogRecord, Severity
from livedbg.panels.log import message_of
from livedbg.panels.logrows import by_time, folded
from livedbg.panels.logs import _marked, cells_of
from livedbg.panels.logsearch import Places
from livedbg.session.filereaders import known_log_formats
from tests.app.fakes import MemoryLogs


def _record(text: str) -> LogRecord:
    return RecordAssembler("log:box/a", SourceClock(0), known_log_formats()).single(Line(text, 0, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mono_ns=5279][T0x7f][DEBUG] prepare: [a.cpp:2] Thread 0", "[T0x7f] prepare: [a.cpp:2] Thread 0"),
        ("W1121 03:11:22.333000 4711 torch/x.py:12] cache full", "4711 torch/x.py:12] cache full"),
        ("2026-01-02 03:04:05.123 worker[1] INFO pool: closing", "worker[1] pool: closing"),
        ("2026-01-02 03:04:05,123 - trainer - ERROR - loss is nan", "trainer - loss is nan"),
        ("2026-01-02 03:04:05 | INFO | mod:fn:12 - hi", "mod:fn:12 - hi"),
        ("[ERROR] boom", "boom"),
        ("Nov 24 15:00:00 box kernel[12]: NVRM: Xid", "box kernel[12]: NVRM: Xid"),
        # words of the message itself stay
        ("2026-01-02 03:04:05,123 trainer got ERROR from x", "trainer got ERROR from x"),
        ("2026-01-02T03:04:05.123Z error something", "error something"),
        ("INFO:root:hello ERROR is not", "root: hello ERROR is not"),
        ("ERROR at 12:00:00 plain", "ERROR at 12:00:00 plain"),
        ("2026-01-02 03:04:05,123", ""),
    ],
)
def test_time_and_severity_are_not_repeated(text: str, message: str) -> None:
    assert message_of(_record(text)) == message


def _said(rank: int, text: str, severity: Severity = Severity.INFO) -> LogRecord:
    return LogRecord(source=f"log:box/rank{rank}", text=text, severity=severity)


def _rank(record: LogRecord) -> int | None:
    name = record.source.rpartition("rank")[2]
    return int(name) if name.isdecimal() else None


def test_equal_lines_of_ranks_are_one_row() -> None:
    records = [
        _said(0, "loading"), _said(1, "loading"), _said(2, "failed"), _said(3, "loading"),
        _said(4, "loading", Severity.ERROR), LogRecord(source="log:box/other", text="loading"),
        _said(0, "loading"),
    ]  # fmt: skip
    rows = folded(records, _rank)
    assert [(row.record.text, row.who) for row in rows] == [
        ("loading", "ranks 0-1,3"),
        ("failed", ""),
        ("loading", ""),  # another severity
        ("loading", ""),  # no rank
        ("loading", ""),  # rank 0 once more
    ]


def test_several_logs_are_merged_by_time() -> None:
    def one(source: str, text: str, wall_ns: int | None = None) -> LogRecord:
        return LogRecord(source=source, text=text, wall_ns=wall_ns)

    logs = [one("a", "1", 10), one("a", "2"), one("a", "3", 30), one("b", "4", 20), one("b", "5", 15), one("c", "6")]
    assert [record.text for record in by_time(logs)] == ["6", "1", "2", "4", "5", "3"]
    assert by_time(logs[:3]) == logs[:3]


def test_lines_far_apart_are_rows_of_their_own() -> None:
    between = [LogRecord(source="log:box/other", text=str(n)) for n in range(300)]
    rows = folded([_said(0, "loading"), *between, _said(1, "loading")], _rank)
    assert rows[-1].record.source == "log:box/rank1"


def test_cells_of_a_bar() -> None:
    assert cells_of([0, 5, 99], 100, 10) == {0, 9}
    assert cells_of([50], 100, 10) == {5}
    assert cells_of([3], 3, 10) == {9}
    assert cells_of([1], 0, 10) == set()


def test_a_mark_keeps_what_a_click_does() -> None:
    bar = [Segment(" ", Style(bgcolor="black", meta={"@mouse.down": "scroll_up"}))] * 3
    marked = _marked(bar, lambda size: {size - 1: ("-", Style(color="red"))})
    assert [cell.text for cell in marked] == [" ", " ", "-"]
    assert marked[2].style is not None and marked[2].style.meta == {"@mouse.down": "scroll_up"}
    assert marked[2].style.bgcolor == bar[0].style.bgcolor if bar[0].style else False


def test_places_are_in_order_whoever_writes() -> None:
    class Ranks(MemoryLogs):
        def severe(self, source, least, found):  # type: ignore[no-untyped-def]
            assert found([3, 7], 0.5) and found([4, 9], 1.0)

    places = Places(Ranks([]), lambda: None).severe(Severity.ERROR, "a")
    while not places.done:
        pass
    assert [line for _source, line in places.found] == [3, 4, 7, 9]
    assert (places.next("a", 5, 1), places.next("a", 5, -1), places.next("a", 10, 1)) == (7, 4, None)
    assert (places.ordinal("a", 7), places.ordinal("a", 8)) == (3, None)
