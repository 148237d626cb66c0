"""The command line. Errors are printed here and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence

from livedbg.errors import LivedbgError

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Returns:
        The exit code: 0 nothing wrong found, 10 stall or deadlock, 11 crash, 12 precision or
        dependency finding, 2 usage, 3 the target can't be looked at, 4 a time limit ended it.
    """
    import click  # 30 ms

    from livedbg.cli.group import livedbg

    try:
        result = livedbg.main(list(arguments) if arguments is not None else None, "livedbg", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads: don't complain at exit
        return 128 + signal.SIGPIPE
    except LivedbgError as error:
        if os.environ.get("LIVEDBG_DEBUG"):
            traceback.print_exc()
        print(f"livedbg: {error.message}", file=sys.stderr)
        if error.remedy:
            print(f"  try: {error.remedy}", file=sys.stderr)
        return error.exit_code
    return result if isinstance(result, int) else 0
