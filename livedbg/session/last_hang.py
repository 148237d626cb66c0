"""The last hang found, kept until the job ends: its locks and waits are gone then.

Invariants:
    last_hang.H1. A recent verdict of a hang is put on the stream before the end of a process: a recording and a replay
        have it as the live session does. A hang that was over by then is marked as resolved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.model import HANG_SEEN, Diagnostic, Severity
from livedbg.model.events import DiagnosticSeen, Event, ProcessExited, Stamp

_LATELY_S: Final = 5.0  # a program that handles Ctrl-C may run for a while before it ends


class LastHang:
    """The newest verdict that was a hang."""

    def __init__(self, stamp: Callable[[], Stamp], clock: Callable[[], float] = time.monotonic) -> None:
        self._stamp = stamp
        self._clock = clock
        self._hang: Verdict | None = None
        self._hangs = False
        self._seen_s = 0.0
        self._reported = False

    def note(self, verdict: Verdict) -> None:
        """Update from a verdict."""
        self._hangs = verdict.state in (VerdictState.DEADLOCK, VerdictState.STALLED)
        if self._hangs:
            self._hang, self._seen_s = verdict, self._clock()

    def before(self, batch: Sequence[Event]) -> list[Event]:
        """Return the events to put before a batch (H1)."""
        hang = self._hang
        if hang is None or not any(isinstance(event, ProcessExited) for event in batch):
            return []
        over = not self._hangs and self._clock() - self._seen_s > _LATELY_S  # a busy machine judges seldom
        if over and not self._reported:
            return []
        self._reported = not over
        from livedbg.analysis.postmortem.ended import HangFacts

        seen = Diagnostic(
            id=HANG_SEEN,
            system="livedbg",
            code="hang",
            severity=Severity.WARNING,
            sentence=hang.sentence,
            entities=hang.roots,
            facts=HangFacts(state=hang.state),
            resolved=over,
            at_wall_ns=hang.since_wall_ns,
        )
        return [DiagnosticSeen(diagnostic=seen, **self._stamp())]
