"""`livedbg record`: the event stream to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.cli.black_box import BlackBox
from livedbg.cli.target_options import TargetOptions, target_options
from livedbg.cli.units import DURATION, SIZE
from livedbg.commands.messages import warn_all
from livedbg.commands.sessions import started
from livedbg.commands.signals import quit_on_signals
from livedbg.model.errors import SourceError
from livedbg.recording.recorder import MOST_BYTES, Recorder
from livedbg.recording.ring import MOST_RING_BYTES, RingRecorder
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.text.quantities import byte_size
from livedbg.text.shell import shell_word

__all__ = ["command"]

_FIRST_LOOK_S: Final = 60.0
"""Longest wait for the first scan of every source."""

_CHECK_S: Final = 0.5


@click.command("record")
@target_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
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
    """The request of a recording: it ends with its targets, also where logs were named."""
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
