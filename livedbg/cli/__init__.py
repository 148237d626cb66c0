"""The command line. Errors are printed here and nowhere else."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from livedbg.commands.command_clock import clock, go_first

if TYPE_CHECKING:
    from livedbg.model.errors import LivedbgError

_COLLECT_EVERY: Final = 100_000
"""Objects that are made between two collections of garbage (Python: 700). What is imported and read at the start is no
garbage: to look through it again and again took 7 % of a `report`."""

INTERRUPTED = 128 + signal.SIGINT
NOBODY_READS = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code (livedbg.cli.group.EXIT_CODES)."""
    gc.set_threshold(_COLLECT_EVERY)
    clock.begin()
    go_first(next(iter(sys.argv[1:] if arguments is None else arguments), ""))
    return _guarded(arguments)


def _guarded(arguments: Sequence[str] | None) -> int:
    from livedbg.commands.output import drop_output, prepare_streams  # 80 ms, after `go_first`
    from livedbg.model.errors import LivedbgError, SourceError

    try:
        prepare_streams()
        code = clock.code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except RuntimeError as error:  # so Python 3.11 passes on what a signal raises while a class is made (__set_name__)
        cause = error.__cause__
        if isinstance(cause, SystemExit) and isinstance(cause.code, int):
            return cause.code
        if not isinstance(cause, KeyboardInterrupt):
            raise
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return NOBODY_READS
    except LivedbgError as error:
        return _say(error)
    except OSError as error:
        drop_output()
        what = f"{error.filename}: {error.strerror}" if error.filename else f"Input/output error: {error.strerror}"
        return _say(SourceError(f"{what}.", "free some space, or write elsewhere; LIVEDBG_DEBUG=1 shows more"))
    return code


def _run(arguments: Sequence[str] | None) -> int:
    import click  # 30 ms

    from livedbg.cli.group import livedbg
    from livedbg.commands.signals import Quit

    try:
        result = livedbg.main(list(arguments) if arguments is not None else None, "livedbg", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except Quit as quit_by:
        return 128 + quit_by.number
    except SystemExit:
        if "_LIVEDBG_COMPLETE" in os.environ:
            raise
        raise BrokenPipeError from None  # what click made this of
    return result if isinstance(result, int) else 0


def _say(error: LivedbgError) -> int:
    if os.environ.get("LIVEDBG_DEBUG"):
        traceback.print_exc()
    from livedbg.commands.output import warn

    warn(error.message, error.remedy)
    return error.exit_code
