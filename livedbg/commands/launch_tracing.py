"""Traces launches in a session of a command, and reports how well that works."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from livedbg.commands.output import warn
from livedbg.model import SourceHealth
from livedbg.model.errors import TargetError
from livedbg.model.intents import WatchLaunches
from livedbg.model.snapshot import StatusKey
from livedbg.session.live import LiveView
from livedbg.session.view import Update

_CHECK_S: Final = 0.1
_SET_S: Final = 600.0  # for the probes to be set: every library that is loaded is searched, at a low priority


def trace_launches(
    view: LiveView, processes: Sequence[str], share: float = 0.0, *, limit_s: float | None = None
) -> bool:
    """Trace the launches of processes; returns when the probes are set.

    Args:
        view: a started session.
        share: share of the launching threads' time that it may take; 0 for the usual share.
        limit_s: time limit, if not `_SET_S`.

    Returns:
        False if `limit_s` was over first.

    Raises:
        TargetError: a process can't be traced.
    """
    for process in processes:
        view.send(WatchLaunches(process=process, share=share))
    end_s = time.monotonic() + (_SET_S if limit_s is None else min(_SET_S, limit_s))
    while time.monotonic() < end_s and not view.wait_ended(_CHECK_S):
        update = view.latest()
        if update.notice:
            message, _, remedy = update.notice.partition("\n")
            raise TargetError(message, remedy.removeprefix("try: "))
        if sum(touch.what == "probe" for touch in update.snapshot.intrusions) >= len(processes):
            return True
    if limit_s is not None and limit_s < _SET_S:
        return view.wait_ended(0)
    if not view.wait_ended(0):
        raise TargetError(f"The probes were not set within {_SET_S:.0f} s.", "try again")
    return True


class TracingStatus:
    """Reports on standard error how launches are traced, once that is known and whenever it changes."""

    def __init__(self) -> None:
        self._reported: dict[StatusKey, SourceHealth] = {}

    def report(self, update: Update) -> None:
        """Report changes; a sentence in which only the numbers changed is not repeated."""
        for key, status in update.snapshot.statuses.items():
            told = status.health is SourceHealth.ENDED or self._reported.get(key) is status.health
            if key.source == "launches" and not told:
                self._reported[key] = status.health
                if not status.sentence:  # withdrawn
                    continue
                with contextlib.suppress(OSError):  # nobody reads standard error; this is the session's thread
                    warn(status.sentence, status.remedy)
