"""Follows the recipes of one launched command: while it runs, and after it has ended."""

from __future__ import annotations

import contextlib
import glob
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from livedbg.model.errors import SourceError
from livedbg.recipes.effects import Ended, without_effect
from livedbg.recipes.globs import matching
from livedbg.recipes.growing import Growing
from livedbg.recipes.plan import Plan
from livedbg.recipes.sources import folders_above
from livedbg.recipes.summaries import summaries
from livedbg.recipes.witness import Seen, Witness
from livedbg.session.launch import Launched

__all__ = ["RecipeWatch"]

_MOST_LOGS: Final = 200


class RecipeWatch:
    """Reports what recipes write, also in a log of their own, which the Logs screen shows.

    Args:
        plan: what was launched by.
        folder: of the launch.
        argv: the command.
        say: gets each line as it comes, on a thread of ours.

    Raises:
        SourceError: the log can't be made.
    """

    def __init__(self, plan: Plan, folder: Path, argv: Sequence[str], say: Callable[[str], None]) -> None:
        self._plan = plan
        self._argv = argv
        self._say = say
        self._lock = threading.Lock()
        self._began_s = time.time()
        self._witness: Witness | None = None
        self.log: Path | None = folder / "recipes.log" if any(part.grows for part in plan.parts) else None
        if self.log is not None:
            try:
                self.log.touch()
            except OSError as error:
                raise SourceError(f"{self.log} can't be written: {error.strerror}.", "free some disk space") from None
        self._growing = Growing(plan.parts, self._report)

    def follow(self, child: Launched) -> None:
        """Start to sample what the command loads."""
        if self._plan.parts:
            self._witness = Witness(child.pid, {name for part in self._plan.parts for name in part.environment})

    def finish(self, child: Launched) -> Ended:
        """Print summaries and missing effects after the command has ended; what that rests on."""
        processes = self._witness.stop() if self._witness is not None else ()
        self._growing.stop()
        ended = self._ended(child, processes)
        for line in summaries(self._plan.parts, self._argv[0], self._plan.find, ended):
            self._say(line)
        for sentence in without_effect(self._plan.parts, ended):
            self._say(sentence)
        return ended

    def so_far(self, child: Launched) -> Ended:
        """The same while the command runs, without a line of it printed."""
        return self._ended(child, self._witness.seen if self._witness is not None else ())

    def _ended(self, child: Launched, processes: Sequence[Seen]) -> Ended:
        logs = (file for name in self._plan.logs for file in _files(Path(name)))
        above = folders_above(self._argv, Path.cwd())
        return Ended((child.stdout, child.stderr, *logs), processes, self._began_s, Path.cwd(), above)

    def _report(self, line: str) -> None:
        self._say(line)
        if self.log is not None:  # on a full disk the line is printed all the same
            with self._lock, contextlib.suppress(OSError), self.log.open("a") as file:
                file.write(f"{line}\n")


def _files(log: Path) -> Sequence[Path]:
    """A log, or the logs below a folder: the newest of them."""
    return matching(f"{glob.escape(str(log))}/**/*.log")[-_MOST_LOGS:] if log.is_dir() else [log]
