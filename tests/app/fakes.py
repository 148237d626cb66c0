"""A session made of scripted events, for the app: real store, scripted or real diagnosis, fixed clock.

`scenario(NAME)` gives a view that has everything to show from the moment that it is started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.logs.reader import LogReader
from livedbg.model import LogRecord, Severity
from livedbg.model import events as ev
from livedbg.model.intents import Intent
from livedbg.session.view import NOTHING_YET, Timeline, Update
from livedbg.state.store import Store

T0_WALL = 1_767_268_991_000_000_000  # 2026-01-01 12:03:11 UTC
T0_MONO = 1_000_000_000_000
S = 1_000_000_000


def stamp(after_s: float = 0.0) -> ev.Stamp:
    """The stamp of so many seconds after the beginning."""
    after = round(after_s * S)
    return {"host": "box", "mono_ns": T0_MONO + after, "wall_ns": T0_WALL + after}


class MemoryLogs:
    """A LogReader over lists."""

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self.records: dict[str, list[LogRecord]] = {}
        for record in records:
            self.records.setdefault(record.source, []).append(record)

    def count(self, source: str) -> tuple[int, bool]:
        return len(self.records.get(source, ())), True

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        lines = self.records.get(source, [])
        start = max(start + len(lines), 0) if start < 0 else start
        return lines[start : start + count]

    def search(
        self,
        source: str,
        pattern: str,
        start: int = 0,
        *,
        backwards: bool = False,
        progress: Callable[[float], bool] | None = None,
    ) -> int | None:
        try:
            wanted = re.compile(pattern, 0 if any(map(str.isupper, pattern)) else re.IGNORECASE)
        except re.error as error:
            raise ValueError(str(error)) from error
        lines = self.records.get(source, [])
        numbers = range(start, -1, -1) if backwards else range(start, len(lines))
        for done, number in enumerate(numbers):
            if progress is not None and done % 100 == 0 and not progress(done / max(len(lines), 1)):
                return None
            if wanted.search(lines[number].text):
                return number
        return None

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        lines: list[int] = []
        at: int | None = start - 1
        while (at := self.search(source, pattern, at + 1)) is not None:
            lines.append(at)
        found(lines, 1.0)

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        records = self.records.get(source, [])
        found([n for n, record in enumerate(records) if record.severity.rank >= least.rank], 1.0)


@dataclass
class FakeTimeline:
    """A time line that moves when it is told to."""

    start_wall_ns: int = T0_WALL
    end_wall_ns: int = T0_WALL + 100 * S
    position_wall_ns: int = T0_WALL + 43 * S
    playing: bool = False
    speed: float = 1.0

    def play(self) -> None:
        self.playing = True

    def pause(self) -> None:
        self.playing = False

    def step(self, count: int = 1) -> None:
        self.position_wall_ns += count * S

    def seek(self, wall_ns: int) -> None:
        self.position_wall_ns = wall_ns

    def set_speed(self, speed: float) -> None:
        self.speed = speed


@dataclass
class FakeView:
    """Implements livedbg.session.view.SessionView; what is sent to it stands in `sent`."""

    title: str
    events: Sequence[ev.Event]
    judge: Callable[[Store], Diagnosis]
    mode: str = "observe"
    timeline: Timeline | None = None
    events_per_s: float = 0.0
    error: Exception | None = None
    sent: list[Intent] = field(default_factory=list)
    started: bool = False
    stopped: bool = False

    def __post_init__(self) -> None:
        self.store = Store()
        self._latest = NOTHING_YET
        self._callbacks: list[Callable[[Update], None]] = []
        records = [r for event in self.events if isinstance(event, ev.LogsSeen) for r in event.records]
        self.reader = MemoryLogs(records)

    @property
    def logs(self) -> LogReader:
        return self.reader

    def start(self) -> None:
        if self.error is not None:
            raise self.error
        self.started = True
        self.feed(self.events)

    def stop(self) -> None:
        self.stopped = True

    def latest(self) -> Update:
        return self._latest

    def subscribe(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def send(self, intent: Intent) -> None:
        self.sent.append(intent)

    def feed(self, events: Iterable[ev.Event], notice: str = "") -> None:
        """More events; one update follows."""
        self.store.apply_all(events)
        self._latest = Update(self.store.snapshot(), self.judge(self.store), self.events_per_s, False, notice)
        for callback in list(self._callbacks):
            callback(self._latest)
