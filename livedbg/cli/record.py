"""`livedbg record`: the event stream to a file."""

from __future__ import annotations

from pathlib import Path

import click

from livedbg.cli.common import Look, look_options, quit_on_signals, running, warn_all
from livedbg.errors import SourceError
from livedbg.hostinfo import host_name
from livedbg.recording import Recorder

__all__ = ["command"]


@click.command("record")
@look_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The recording.")
@click.option("--for", "seconds", type=click.FloatRange(0.1), metavar="SECONDS", help="Stop after that time.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(look: Look, output: Path, seconds: float | None, force: bool) -> int:
    """Record what is seen, until Ctrl-C, the end of the target, or --for.

    The file can be replayed, reported, and read while it grows.
    """
    look = look.resolved()
    warn_all(look.found.problems)
    title = " ".join([*look.targets, *look.logs])
    recorder = Recorder(output, host_name(), title, replace=force)
    try:
        with quit_on_signals(), running(look.request(), sink=recorder) as view:
            try:
                view.wait_ended(seconds)
            except KeyboardInterrupt:
                pass
    finally:
        recorder.close()
    if recorder.failed:
        raise SourceError(f"{recorder.failed}; {output} holds what was written before.", "free some space")
    click.echo(f"{output}: {output.stat().st_size:,} bytes. Look at it: livedbg replay {output}", err=True)
    return 0
