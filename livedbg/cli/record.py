"""`livedbg record`: the event stream to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from livedbg.cli.common import Look, look_options, quit_on_signals, running, warn_all
from livedbg.model.errors import SourceError
from livedbg.recording.file import Recorder
from livedbg.session.hostinfo import host_name
from livedbg.text.quantities import byte_size
from livedbg.text.shell import shell_word

__all__ = ["command"]

_FIRST_LOOK_S: Final = 60.0
"""Longest wait for the first scan of every source."""


@click.command("record")
@look_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
@click.option(
    "--for", "seconds", type=click.FloatRange(0.1), metavar="SECONDS", help="Stop SECONDS after the first scan."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(look: Look, output: Path, seconds: float | None, force: bool) -> int:
    """Record a session until Ctrl-C, the end of the target, or --for.

    `replay` and `report` read the file, also while it is being written.
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
        raise SourceError(f"{recorder.failed}; {output} is incomplete.", "free disk space")
    click.echo(
        f"{output}: {byte_size(output.stat().st_size)}. Open it with: livedbg replay {shell_word(output)}", err=True
    )
    return 0
