"""When the command began, and the exit code that it came to. Imports nothing: it is there before all else."""

from __future__ import annotations

import time


class CommandClock:
    """Of one command line.

    Attributes:
        began_s: when it began (monotonic).
        code: its exit code, once it is known.
    """

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.code = 0

    def begin(self) -> None:
        """A command line begins now."""
        self.began_s, self.code = time.monotonic(), 0


clock = CommandClock()
