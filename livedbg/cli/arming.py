"""`livedbg launch --catch`: catchpoints that are armed before the command's first instruction."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from livedbg.model.catchpoints import CatchpointState
from livedbg.model.intents import Catch
from livedbg.session.launch import Launched
from livedbg.session.live import LiveView
from livedbg.session.presets import patterns_of
from livedbg.session.view import Update

__all__ = ["Arming", "runtimes"]

_RUNTIMES = ("libstdc++.so", "libc++abi.so", "libpython")


class Arming:
    """Sets catchpoints in a command that waits behind its gate, and lets it go once they are armed, or have failed.

    Args:
        view: the session; not started yet.
        child: the command.
        process: its identifier.
        patterns: what to catch.
        argv: the command: what it may load is looked for.
        follow: processes that it starts too.

    Raises:
        UsageError: a pattern is none.
    """

    def __init__(
        self,
        view: LiveView,
        child: Launched,
        process: str,
        patterns: Sequence[str],
        argv: Sequence[str],
        *,
        follow: bool = True,
    ) -> None:
        for pattern in patterns:
            patterns_of(pattern)
        self._view = view
        self._child = child
        self._process = process
        self._follow = follow
        self._patterns = tuple(patterns)
        self._files = runtimes(argv[0])
        self._sent = False
        self._end = view.subscribe(self._take)

    def _take(self, update: Update) -> None:
        if not self._sent:
            self._sent = True
            for pattern in self._patterns:
                self._view.send(Catch(process=self._process, pattern=pattern, follow=self._follow, files=self._files))
        points = update.snapshot.catchpoints.values()
        settled = [point for point in points if point.state is not CatchpointState.ARMING]
        if len(settled) >= len(self._patterns) or update.ended:
            self._child.go()
            self._end()


def runtimes(program: str) -> tuple[str, ...]:
    """The runtimes of C++ and Python that a program may load: itself, what it is linked against, and the system's."""
    path = shutil.which(program)
    if path is None:
        return ()
    found = [path]
    for argv in (["ldd", path], ["ldconfig", "-p"], ["/sbin/ldconfig", "-p"]):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        for line in done.stdout.splitlines():
            file = line.partition("=>")[2].partition(" (")[0].strip()
            if any(name in file for name in _RUNTIMES):
                found.append(file)
    return tuple(dict.fromkeys(str(Path(file).resolve()) for file in found))
