"""The view of a session for a front end (the app, a headless command): live or replayed, the same.

Invariants:
    view.V1. A front end sees whole updates only: a snapshot and the diagnosis made from it.
    view.V2. Callbacks are called one after the other in the session's thread: they must be quick and must not raise.
    view.V3. A front end acts on targets only by sending intents.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis
from livedbg.model.intents import Intent
from livedbg.model.snapshot import EMPTY, Snapshot

if TYPE_CHECKING:
    from livedbg.logs.reader import LogReader


class Update(Struct, frozen=True):
    """A consistent state with its diagnosis.

    Attributes:
        events_per_s: events taken in per second, lately.
        ended: no more updates will come (target gone, recording at its end and not seekable, stopped).
        notice: a message for the user about an intent (an error with its remedy), or "".
        part: before the first full sample: the rules' conclusions from a part, which need not hold.
    """

    snapshot: Snapshot = EMPTY
    diagnosis: Diagnosis = NO_DIAGNOSIS
    events_per_s: float = 0.0
    ended: bool = False
    notice: str = ""
    part: Diagnosis | None = None

    def so_far(self) -> Update:
        """Return the update with the conclusions from a part: for a command that ends before the first full sample."""
        return self if self.part is None else structs.replace(self, diagnosis=self.part, part=None)


NOTHING_YET = Update()


class Timeline(Protocol):
    """The time line of a recording."""

    @property
    def start_wall_ns(self) -> int:
        """Return the wall clock of the first event."""
        ...

    @property
    def end_wall_ns(self) -> int:
        """Return the wall clock of the last event read (grows while the recording is written)."""
        ...

    @property
    def position_wall_ns(self) -> int:
        """Return the position of the replay."""
        ...

    @property
    def playing(self) -> bool:
        """True while the recording plays, False while it is paused."""
        ...

    @property
    def speed(self) -> float:
        """Return recorded seconds per second."""
        ...

    def play(self) -> None:
        """Play."""
        ...

    def pause(self) -> None:
        """Pause."""
        ...

    def step(self, count: int = 1) -> None:
        """Move `count` updates forward, or back if negative."""
        ...

    def seek(self, wall_ns: int) -> None:
        """Go to a time."""
        ...

    def set_speed(self, speed: float) -> None:
        """Set recorded seconds per second; above 0."""
        ...


class SessionView(Protocol):
    """A session for front ends."""

    @property
    def title(self) -> str:
        """Return the target, e.g. `box:4711 python moe.py`."""
        ...

    @property
    def mode(self) -> str:
        """Return `observe`, `replay`, … for the header."""
        ...

    @property
    def timeline(self) -> Timeline | None:
        """Return the time line of a recording; None if live."""
        ...

    @property
    def logs(self) -> LogReader:
        """Return random access to the log records."""
        ...

    def start(self) -> None:
        """Begin to watch, in a thread of its own."""
        ...

    def stop(self) -> None:
        """Detach from everything. Waits until that is done; safe to call twice."""
        ...

    def latest(self) -> Update:
        """Return the newest update."""
        ...

    def subscribe(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        """Call `callback` with every update from now on; return a function that ends that."""
        ...

    def send(self, intent: Intent) -> None:
        """Send an intent; later updates show the result."""
        ...


class Subscribers:
    """Callbacks that get each update. Any thread may add and remove them, also a callback."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Update], None]] = []
        self._lock = threading.Lock()

    def add(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        """Add a callback; return a function that removes it."""
        with self._lock:
            self._callbacks.append(callback)

        def end() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    def call(self, update: Update) -> None:
        """Call all subscribers, one after the other, on this thread."""
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback(update)
