"""`livedbg record`: the event stream to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from livedbg.cli.common import Look, look_options, quit_on_signals, running, warn_all
from livedbg.model.errors import SourceError
from livedbg.recording.file import Recorder
from livedbg.session.hostinfo import host_name

__all__ = ["command"]

_FIRST_LOOK_S: Final = 60.0
"""Of a source that never has a whole look no more is waited for."""


@click.command("record")
@look_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The recording.")
@click.option(
    "--for", "seconds", type=click.FloatRange(0.1), metavar="SECONDS", help="Stop that long after the first look."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(look: Look, output: Path, seconds: float | None, force: bool) -> int:
    """Record what is seen, until Ctrl-C, the end of the target, or --for.

    The file can be replayed, reported, and read while it grows.
    """
    look = look.resolved()
    warn_all(look.found.problems)
    title = " ".join([*look.targets, *look.logs])
    with quit_on_signals():  # from before there is a file: it shall be ended whole
        recorder = Recorder(output, host_name(), title, replace=force)
        try:
            with running(look.request(), sink=recorder) as view:
                try:
                    if seconds is not None:
                        view.wait_settled(_FIRST_LOOK_S)  # on a loaded machine the time would be over before it
                    view.wait_ended(seconds)
                except KeyboardInterrupt:
                    pass
        finally:
            recorder.close()
    if recorder.failed:
        raise SourceError(f"{recorder.failed}; {output} holds what was written before.", "free some space")
    click.echo(f"{output}: {output.stat().st_size:,} bytes. Look at it: livedbg replay {output}", err=True)
    return 0
