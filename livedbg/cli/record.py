"""`livedbg record`: the event stream to a file.

With `--last`, the last minutes are written each time the target gets stuck or crashes, and at the end.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.analysis.diagnosis import VerdictState
from livedbg.cli.target_options import DURATION, FILE, SIZE, TargetOptions, target_options
from livedbg.commands.output import warn, warn_all
from livedbg.commands.signals import quit_on_signals, started
from livedbg.model.errors import RecordingError, SourceError
from livedbg.recording.recorder import MOST_BYTES, Recorder
from livedbg.recording.ring import MOST_RING_BYTES, RingRecorder
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from livedbg.text.quantities import byte_size
from livedbg.text.shell import shell_word

_BAD: Final = {VerdictState.STALLED, VerdictState.DEADLOCK, VerdictState.CRASHED}
_AFTER_S: Final = 5.0  # for the stacks that are taken because of it
_MOST_FILES: Final = 10


class BlackBox:
    """Decides when the last minutes, in `ring`, are written."""

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
        """Write the recording if it is due."""
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


_FIRST_LOOK_S: Final = 60.0
"""Longest wait for the first scan of every source."""

_CHECK_S: Final = 0.5


@click.command("record")
@target_options
@click.option("-o", "--output", type=FILE, required=True, help="File to write.")
@click.option(
    "--for", "seconds", type=click.FloatRange(0.1), metavar="SECONDS", help="Stop SECONDS after the first scan."
)
@click.option(
    "--last",
    type=DURATION,
    metavar="DURATION",
    help="Keep the last DURATION (30s, 10m, 2h) in memory; write it on a stall or crash, and at the end.",
)
@click.option(
    "--max-size",
    type=SIZE,
    metavar="SIZE",
    help="Drop the oldest events at SIZE (500M, 2G).  [default: 2G; with --last 256M]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    options: TargetOptions, output: Path, seconds: float | None, last: float | None, max_size: float | None, force: bool
) -> int:
    """Record a session until Ctrl-C, the end of the target, or --for.

    `replay` and `report` read the file, also while it is being written. With --last, nothing is written until the
    target stalls or crashes; each further stall gets a file of its own, at most ten.
    """
    options = options.resolved()
    warn_all(options.found.problems)
    title = " ".join([*options.targets, *options.logs])
    with quit_on_signals():  # from before there is a file: it shall be ended whole
        if last is None:
            return _to_file(options, output, seconds, int(max_size or MOST_BYTES), title, force=force)
        ring = RingRecorder(
            output, host_name(), title, last_s=last, replace=force, most_bytes=int(max_size or MOST_RING_BYTES)
        )
        box = BlackBox(ring)
        view = LiveView(_request(options), sink=ring)
        ring.keyframe = view.keyframe
        view.subscribe(box.take)
        try:
            with started(view):
                _watch(view, seconds, box)
        finally:
            box.finish()
    return 0


def _request(options: TargetOptions) -> Request:
    """Return the request of a recording: it ends with its targets, also where logs were named."""
    return replace(options.request(), ends_with_processes=bool(options.found.processes))


def _to_file(
    options: TargetOptions, output: Path, seconds: float | None, most_bytes: int, title: str, *, force: bool
) -> int:
    recorder = Recorder(output, host_name(), title, replace=force, most_bytes=most_bytes)
    try:
        view = LiveView(_request(options), sink=recorder)
        recorder.keyframe = view.keyframe
        with started(view):
            _watch(view, seconds)
    finally:
        recorder.close()
    if recorder.failed:
        raise SourceError(f"{recorder.failed}; {output} is incomplete.", "free disk space, or raise --max-size")
    size = byte_size(output.stat().st_size)
    click.echo(f"{output}: {size}. Open it with: livedbg replay {shell_word(output)}", err=True)
    return 0


def _watch(view: LiveView, seconds: float | None, box: BlackBox | None = None) -> None:
    """Wait for Ctrl-C, the end of the target, or `seconds` after the first scan."""
    try:
        if seconds is not None:
            view.wait_settled(_FIRST_LOOK_S)  # on a loaded machine the time would be over before it
        end_s = None if seconds is None else time.monotonic() + seconds
        while not view.wait_ended(_CHECK_S if end_s is None else max(0.0, min(_CHECK_S, end_s - time.monotonic()))):
            if box is not None:
                box.check()
            if end_s is not None and time.monotonic() >= end_s:
                return
    except KeyboardInterrupt:
        pass
