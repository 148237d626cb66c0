"""Brings updates from the session's thread to the app, the newest only, a few times a second.

Invariants:
    feed.B1. The session's thread never waits for the screen (view.V2): updates that nobody takes replace each other.
    feed.B2. No update that is the last one for a while is lost: the newest is always shown in the end.
    feed.B3. A new verdict is shown at once, other news after one interval; what a working process changes all the time
        comes with the clock, and like other news for a moment after somebody has pressed a key.
    feed.B4. While the verdict stays and nobody has pressed a key lately, what moves is shown every few seconds. That
        the job runs is no new verdict, whatever waits for whom just now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from msgspec import structs

from livedbg.analysis import VerdictState
from livedbg.model.snapshot import Snapshot
from livedbg.session.view import NOTHING_YET, SessionView, Update

_AT_ONCE_S: Final = 0.02
"""Least time from a paint to that of another verdict."""

_USED_S: Final = 3.0
"""How long after a key what moves is shown as soon as other news: stacks that were asked for come then."""

_UNUSED_S: Final = 10.0
"""So long after a key the job is shown as it moves; then every `_CALM_S`, as top(1) does."""

_CALM_S: Final = 2.5

_SHARED: Final = attrgetter("tasks", "diagnostics", "exceptions", "statuses", "intrusions")
"""What two snapshots share as long as nothing of it changed (snapshot.S1)."""

_MOVING: Final = attrgetter("stacks", "resources", "edges")
"""The same, of what a working process changes all the time."""


def is_news(before: Update, after: Update) -> bool:
    """Return whether more changed than CPU used, states of threads, stacks and waits, which change all the time."""
    then, now = before.snapshot, after.snapshot
    return (
        bool(after.notice)
        or is_verdict(before, after)
        or after.ended != before.ended
        or then.log_count != now.log_count
        or len(before.diagnosis.findings) != len(after.diagnosis.findings)
        or _living(then) != _living(now)
        or len(then.threads) != len(now.threads)
        or _differ(_SHARED(then), _SHARED(now))
    )


def _differ(then: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return any(a is not b for a, b in zip(then, now, strict=True))


def _living(snapshot: Snapshot) -> list[tuple[str, bool]]:
    return [(process.id, process.exited) for process in snapshot.processes.values()]


def is_verdict(before: Update, after: Update) -> bool:
    """Return whether the verdict differs; the seconds in its sentence don't count, nor the roots of a job that runs.

    The first verdict differs from what was said until everything had been looked at.
    """
    old, new = before.diagnosis.verdict, after.diagnosis.verdict
    if old.state is new.state is VerdictState.RUNNING:
        return False
    return (old.state, old.roots, before.part is None) != (new.state, new.roots, after.part is None)


class Feed:
    """Takes updates at any rate; hands on the newest at most once an interval.

    Args:
        wake: called from any thread when `due` may have become less; makes the app call it soon.
        interval_s: least time between two paints; 0 shows every update at once.
    """

    def __init__(self, view: SessionView, wake: Callable[[], None], interval_s: float) -> None:
        self._view = view
        self._wake = wake
        self._interval_s = interval_s
        self._replay = view.timeline is not None
        self._lock = threading.Lock()
        self._newest: Update | None = None
        self._shown = NOTHING_YET
        self._wait_s: float | None = None
        self._last = 0.0
        self._used = -_UNUSED_S
        self._error: BaseException | None = None
        self._end: Callable[[], None] | None = None

    def start(self) -> None:
        """Start the session in a thread of its own; returns at once."""
        self._end = self._view.subscribe(self._take)
        threading.Thread(target=self._begin, name="livedbg-start", daemon=True).start()

    def stop(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    def used(self) -> None:
        """Note that somebody has pressed a key, or used the mouse."""
        self._used = time.monotonic()

    @property
    def error(self) -> BaseException | None:
        """The error that kept the session from starting, or None."""
        return self._error

    def due(self) -> float | None:
        """Return the seconds until `take` may be called: 0 for now, None for the clock's next tick."""
        if self._error is not None:
            return 0.0
        wait_s = self._wait_s
        return None if wait_s is None else max(self._last + wait_s - time.monotonic(), 0.0)

    def calm(self) -> bool:
        """Return whether the newest update can wait for a later tick of the clock (B4)."""
        with self._lock:
            newest, shown = self._newest, self._shown
        now_s = time.monotonic()
        return (
            newest is not None
            and not (self._replay or is_news(shown, newest))
            and now_s - self._used >= _UNUSED_S
            and now_s - self._last < _CALM_S
        )

    def take(self) -> Update | None:
        """Return the newest update that was not taken yet."""
        with self._lock:
            newest, self._newest = self._newest, None
            self._shown = newest or self._shown
            self._wait_s = None
        self._last = time.monotonic()
        return newest

    def _begin(self) -> None:
        try:
            self._view.start()
        except Exception as error:
            self._error = error
        self._wake()

    def _take(self, update: Update) -> None:
        with self._lock:
            if self._newest is not None and self._newest.notice and not update.notice:
                update = structs.replace(update, notice=self._newest.notice)
            self._newest = update
            wait_s = self._urgency(update)
            sooner = wait_s is not None and (self._wait_s is None or wait_s < self._wait_s)
            if sooner:
                self._wait_s = wait_s
        if sooner:
            self._wake()

    def _urgency(self, update: Update) -> float | None:
        """Return how long after the last paint an update is to be shown; None if it can wait until the clock ticks."""
        if is_verdict(self._shown, update):
            return min(_AT_ONCE_S, self._interval_s)
        always = self._replay or not self._interval_s
        if always or is_news(self._shown, update):
            return self._interval_s
        moved = time.monotonic() - self._used < _USED_S and _differ(
            _MOVING(self._shown.snapshot), _MOVING(update.snapshot)
        )
        return self._interval_s if moved else None
