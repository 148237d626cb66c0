"""What becomes of a command that livedbg started, when livedbg ends.

Invariants:
    last_will.Q1. A terminal that is gone (SIGHUP, a link that dropped) ends livedbg and nothing else: the command goes
        on, and so does its output, to its files.
    last_will.Q2. From the app on, nothing but an answer or SIGTERM, SIGINT or SIGQUIT from outside kills it: no key,
        and no bug in the app.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from livedbg.app.options import AppOptions, Started
from livedbg.cli.job import Job
from livedbg.commands.signals import hung_up
from livedbg.session.launch import Launched
from livedbg.session.live import LiveView
from livedbg.text.sanitize import clean_line

_KILLING: Final = (0, *(128 + number for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)))
"""The codes of the app with which the command is killed: 0 is that its user said so, or that it has ended."""


def _asked_about(job: Job, child: Launched) -> Started:
    """What who quits the app is asked about."""
    name = f"{clean_line(Path(job.argv[0]).name, 40)} ({child.pid})"
    return Started(name, f"Its output goes on to {child.folder}.", lambda: child.exit_code is None)


class LastWill:
    """`with` kills the command at its end, however that comes, unless it is to be left.

    Attributes:
        child: the command, once it runs.
        leaves: leave it running.
    """

    def __init__(self, leaves: bool) -> None:
        self.child: Launched | None = None
        self.leaves = leaves

    def in_app(self, view: LiveView, job: Job, screen: AppOptions, *killing: int) -> int:
        """Show the command in the app, and learn from how that ends what becomes of it.

        Args:
            view: of the command.
            job: what it was started as.
            screen: how to show it.
            killing: further codes of the app with which it is killed.

        Returns:
            The app's code.
        """
        from livedbg.app import run

        assert self.child is not None
        code = run(view, screen if self.leaves else replace(screen, started=_asked_about(job, self.child)))
        self.leaves = self.leaves or code not in (*_KILLING, *killing)
        return code

    def __enter__(self) -> LastWill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        child = self.child
        if child is None:
            return
        if self.leaves or hung_up(error):
            child.go()  # also where nothing was armed yet
        else:
            child.end()
