"""`livedbg replay`: a recording in the same screens."""

from __future__ import annotations

from pathlib import Path

import click

from livedbg.app.options import AppOptions
from livedbg.cli.attach import app_options
from livedbg.cli.target_options import FILE, redact_option
from livedbg.session.replay import ReplayView


@click.command("replay")
@click.argument("file", type=FILE)
@click.option("--play", is_flag=True, help="Start playing from the beginning.")
@click.option(
    "--speed", type=click.FloatRange(0.01, 1000), default=1.0, show_default=True, metavar="X", help="Playback speed."
)
@redact_option
@app_options
def command(file: Path, play: bool, speed: float, redact: bool, screen: AppOptions) -> int:
    """Replay a recording: play, pause, step, seek. It may still be growing."""
    from livedbg.app import run

    return run(ReplayView(file, speed=speed, playing=play, redact=redact), screen)
