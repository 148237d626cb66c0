"""Replay of a recording for front ends: the same screens as live, with a time line.

Invariants:
    replay.P1. The state at a step is the fold of the events up to it, however the replay got there.
    replay.P2. A recording that is still being written can be watched: its end moves on.
    replay.P3. Only the time after `play` moves it on, and nothing does after `pause` or `step`, however late its thread
        is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from livedbg.logs.reader import LogReader, RecordedLogReader
from livedbg.model.events import Event
from livedbg.model.intents import Intent
from livedbg.recording.file import RecordingReader
from livedbg.recording.recorder import Tape
from livedbg.session.redaction import Redaction
from livedbg.session.rulebook import diagnose
from livedbg.session.view import NOTHING_YET, Subscribers, Timeline, Update
from livedbg.state.store import Store
from livedbg.text.secrets import mask_text

_CHECK_S: Final = 0.5  # how often growth is checked
_TURN_S: Final = 0.1


class ReplayView:
    """A recording as a livedbg.session.view.SessionView and livedbg.session.view.Timeline.

    Args:
        speed: recorded seconds per second.
        playing: play at once, from the start; otherwise start at the end, paused.
        redact: mask likely passwords, tokens and keys.

    Raises:
        RecordingError: it can't be read.
    """

    mode = "replay"

    def __init__(self, path: Path, *, speed: float = 1.0, playing: bool = False, redact: bool = True) -> None:
        self._reader = RecordingReader(path)
        title = self._reader.header.title
        self.title = f"{path.name} · {mask_text(title) if redact else title}"
        self._redaction = Redaction() if redact else None
        self._tape = Tape()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._speed = speed
        self._playing = playing
        self._step = 0
        self._at_ns = 0.0  # the position on the time line, wall clock
        self._moved_s = 0.0  # until when the time that goes by is counted in
        self._latest = NOTHING_YET
        self._subscribers = Subscribers()
        self._thread = threading.Thread(target=self._main, name="livedbg-replay", daemon=True)
        self._logs = RecordedLogReader(lambda: self._latest.snapshot)
        self._notice = ""
        self._said = ""  # of what is wrong with the recording

    # SessionView

    @property
    def timeline(self) -> Timeline:
        """Return the time line: this object itself."""
        return self

    @property
    def logs(self) -> LogReader:
        """Return the log records that the state at this moment keeps."""
        return self._logs

    def start(self) -> None:
        """Read the recording, and begin."""
        self._thread.start()

    def stop(self) -> None:
        """Close the recording."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._reader.close()

    def latest(self) -> Update:
        return self._latest

    def subscribe(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        return self._subscribers.add(callback)

    def send(self, intent: Intent) -> None:
        """Ignore the intent with a notice: a recording has no live target."""
        self._notice = "This is a recording; it has no live target."
        self._wake.set()

    # Timeline

    @property
    def start_wall_ns(self) -> int:
        return self._tape.start_wall_ns

    @property
    def end_wall_ns(self) -> int:
        return self._tape.end_wall_ns

    @property
    def position_wall_ns(self) -> int:
        with self._lock:
            return max(self._tape.times[self._step], int(self._at_ns))

    @property
    def playing(self) -> bool:
        return self._playing

    @property
    def speed(self) -> float:
        return self._speed

    def play(self) -> None:
        """Play; from the start again at the end."""
        with self._lock:
            if self._step >= len(self._tape.steps) - 1:
                self._go(1)
            if not self._playing:
                self._playing, self._moved_s = True, time.monotonic()
        self._wake.set()

    def pause(self) -> None:
        with self._lock:
            self._playing = False
        self._wake.set()

    def step(self, count: int = 1) -> None:
        """Move `count` updates forward, or back if negative; pauses."""
        with self._lock:
            self._playing = False
            self._go(self._step + count)
        self._wake.set()

    def seek(self, wall_ns: int) -> None:
        with self._lock:
            self._go(self._tape.step_at(wall_ns))
            self._at_ns = float(max(self._tape.start_wall_ns, min(wall_ns, self._tape.end_wall_ns)))
            self._moved_s = time.monotonic()
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        """Set recorded seconds per second.

        Raises:
            ValueError: not above 0.
        """
        if not speed > 0:
            raise ValueError(f"a replay's speed is above 0, not {speed}")
        self._speed = speed
        self._wake.set()

    # the replay's thread

    def _go(self, step: int) -> None:
        last = len(self._tape.steps) - 1
        self._step = max(min(1, last), min(step, last))
        self._at_ns = float(self._tape.times[self._step])

    def _main(self) -> None:
        with self._lock:  # who seeks meanwhile comes after
            self._grow()
            self._go(1 if self._playing else len(self._tape.steps) - 1)
            self._moved_s = time.monotonic()
        self._publish()
        checked = time.monotonic()
        while not self._stopping:
            self._wake.wait(_TURN_S if self._playing else _CHECK_S)
            self._wake.clear()
            now = time.monotonic()
            before = self._step
            if now - checked >= _CHECK_S:
                checked = now
                self._grow()
            self._advance()
            if self._step != before or self._latest.snapshot.revision != self._tape.steps[self._step] or self._notice:
                self._publish()

    def _advance(self) -> None:
        with self._lock:
            if not self._playing:
                return
            now_s = time.monotonic()
            seconds, self._moved_s = now_s - self._moved_s, now_s
            self._at_ns = min(self._at_ns + seconds * self._speed * 1e9, float(self._tape.end_wall_ns))
            self._step = max(self._step, self._tape.step_at(int(self._at_ns)))
            if self._step == len(self._tape.steps) - 1 and self._at_ns >= self._tape.end_wall_ns:
                self._playing = False

    def _grow(self) -> None:
        with self._lock:
            at_end = self._step == len(self._tape.steps) - 1
            grown = self._tape.extend(_shown(self._reader, self._redaction))
            if grown and at_end and not self._playing:
                self._go(len(self._tape.steps) - 1)

    def _publish(self) -> None:
        with self._lock:
            step = self._step
            snapshot = self._tape.state(self._tape.steps[step]).snapshot()
        notice, self._notice = self._notice, ""
        if not notice and self._reader.incomplete != self._said:
            notice = self._said = self._reader.incomplete
        self._latest = Update(snapshot, diagnose(snapshot), 0.0, False, notice)
        self._subscribers.call(self._latest)


def _shown(reader: RecordingReader, redaction: Redaction | None) -> Iterable[Event]:
    events = reader.events()
    return events if redaction is None else (masked for event in events for masked in redaction.of((event,)))


def last_update(path: Path, *, redact: bool = True) -> tuple[Update, str]:
    """Return a recording's last state, and its problem or "".

    Raises:
        RecordingError: it can't be read.
    """
    reader = RecordingReader(path)
    try:
        store = Store()
        store.apply_all(_shown(reader, Redaction() if redact else None))
        snapshot = store.snapshot()
        return Update(snapshot, diagnose(snapshot), 0.0, True), reader.incomplete
    finally:
        reader.close()
