"""`record --last`: writes the last minutes each time the target gets stuck or crashes, and at the end."""

from __future__ import annotations

import time
from typing import Final

import click

from livedbg.analysis.diagnosis import VerdictState
from livedbg.commands.messages import warn
from livedbg.model.errors import RecordingError
from livedbg.recording.ring import RingRecorder
from livedbg.session.view import Update
from livedbg.text.quantities import byte_size
from livedbg.text.shell import shell_word

__all__ = ["BlackBox"]

_BAD: Final = {VerdictState.STALLED, VerdictState.DEADLOCK, VerdictState.CRASHED}
_AFTER_S: Final = 5.0  # for the stacks that are taken because of it
_MOST_FILES: Final = 10


class BlackBox:
    """Decides when the last minutes are written.

    Args:
        ring: has them.
    """

    def __init__(self, ring: RingRecorder) -> None:
        self._ring = ring
        self._due_s: float | None = None
        self._why = ""
        self._files = 0
        self._state: VerdictState | None = None  # now
        self._told: VerdictState | None = None  # that the newest file is about

    def take(self, update: Update) -> None:
        """Take in an update. On the session's thread."""
        state = update.diagnosis.verdict.state
        if state in _BAD and self._state is not state:
            self._due_s = time.monotonic() + _AFTER_S
        self._state = state

    def check(self) -> None:
        """Write if it is time."""
        if self._due_s is not None and time.monotonic() >= self._due_s:
            self._write()

    def finish(self) -> None:
        """Write at the end, unless the newest file shows the same already."""
        if self._files == 0 or self._due_s is not None or (self._state in _BAD and self._state is not self._told):
            self._write()

    def _write(self) -> None:
        self._due_s, self._told = None, self._state
        if self._files == _MOST_FILES:
            warn(f"{_MOST_FILES} recordings were written; no more are.")
        self._files += 1
        if self._files > _MOST_FILES:
            return
        try:
            path = self._ring.write()
        except RecordingError as error:
            warn(error.message, error.remedy)
            return
        why = f" ({self._state.value})" if self._state in _BAD and self._state is not None else ""
        size = byte_size(path.stat().st_size)
        click.echo(f"{path}{why}: {size}. Open it with: livedbg replay {shell_word(path)}", err=True)
