"""`livedbg attach`: the terminal app on running processes."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from livedbg.app.options import AppOptions, check_terminal
from livedbg.cli.target_options import FILE, TargetOptions, target_options
from livedbg.commands.output import warn
from livedbg.recording.recorder import Recorder
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView


def app_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options of the screen; the command gets them as one `screen` argument."""

    @click.option(
        "--theme",
        type=click.Choice(["dark", "contrast", "colour-blind"]),
        default="dark",
        show_default=True,
        help="Colour theme.",
    )
    @click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
    @click.option("--low-bandwidth", is_flag=True, help="Repaint less often, for slow links.")
    @click.option("--no-mouse", is_flag=True, help="Do not capture the mouse.")
    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        screen = AppOptions(
            theme=options.pop("theme"),
            ascii=True if options.pop("ascii_only") else None,
            low_bandwidth=options.pop("low_bandwidth"),
            no_mouse=options.pop("no_mouse"),
        )
        return command(screen=screen, **options)

    return wrapped


@click.command("attach")
@target_options
@app_options
@click.option("--record", type=FILE, help="Also write a recording to this file.")
@click.option("--force", is_flag=True, help="Overwrite an existing recording.")
def command(options: TargetOptions, record: Path | None, force: bool, screen: AppOptions) -> int:
    """Show in the terminal app what processes do and what they are stuck on, while they keep running."""
    from livedbg.app import run

    options = options.resolved()
    check_terminal(os.environ, is_terminal=sys.stdin.isatty() and sys.stdout.isatty())  # before a file is made
    title = " ".join([*options.targets, *options.logs])
    with contextlib.ExitStack() as stack:
        recorder = Recorder(record, host_name(), title, replace=force) if record is not None else None
        if recorder is not None:
            stack.callback(recorder.close)
        view = LiveView(options.request(), sink=recorder)
        if recorder is not None:
            recorder.keyframe = view.keyframe
        code = run(view, screen)
    if recorder is not None and recorder.failed:
        warn(f"{recorder.failed}; {record} is incomplete.", "free disk space")
    return code
