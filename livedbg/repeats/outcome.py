"""How one run ended."""

from __future__ import annotations

import re
import signal
from typing import Final, Literal

from msgspec import Struct

from livedbg.model import Frame, Stack

__all__ = ["How", "RunEnd", "frames_shown", "how_ended", "in_words", "stack_of"]

How = Literal["well", "code", "signal", "hung", "cut"]
_FRAMES: Final = 12
_CHANGING: Final = re.compile(r"0x[0-9a-f]+|\d+")
_HELPERS: Final = re.compile(
    r"^(?:__cxa_\w+|_Unwind_\w+|__GI_\w+|raise|abort|__libc_message|__pthread_kill\w*|gsignal|std::terminate.*"
    r"|malloc_printerr|__interceptor_\w+|_PyErr_\w+|PyErr_\w+"
    r"|(?:__)?(?:GI_|libc_|pthread_|lll_|futex_|new_sem_)\w+|do_futex_wait.*|(?:__)?(?:poll|select|epoll_wait|syscall)"
    r"|PyThread_\w+|acquire_timed|_*(?:clock_)?nanosleep\w*)$"
)
"""Functions by which a program dies or waits, not where it does."""


class RunEnd(Struct, frozen=True, kw_only=True):
    """How one run ended.

    Attributes:
        run: its number, from 1.
        how: `well`, `code` (an exit code), `signal`, `hung` (its time was up), or `cut` (it was ended by Ctrl-C).
        code: exit code as a shell gives it; None where livedbg ended it.
        signal: name of the signal that ended it.
        marker: the line that said what began last and never ended.
        others: how many more were open.
        last_line: the last line of its output.
        exception: type of the exception that ended it, or whose trace it printed last; what a sanitizer found.
        message: what the exception says.
        reported: the exception is a sanitizer's report, and its first frame in the user's code is the place.
        stack: frames where that was, or where it hung; innermost first.
        verdict: what livedbg said of it at its end.
        folder: has its output and its recording.
        notes: what its recipes told.
    """

    run: int
    device: str = ""
    how: How
    code: int | None = None
    signal: str = ""
    seconds: float = 0.0
    marker: str = ""
    others: int = 0
    last_line: str = ""
    exception: str = ""
    message: str = ""
    reported: bool = False
    stack: tuple[str, ...] = ()
    verdict: str = ""
    folder: str = ""
    recording: str = ""
    notes: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether it ended as it should not."""
        return self.how not in ("well", "cut")

    @property
    def told(self) -> bool:
        """Whether there is more to say of its end than that it ended: it was bad, or a sanitizer reported something."""
        return self.bad or self.reported

    @property
    def ending(self) -> str:
        """How it ended, in words that are the same for runs that ended alike."""
        text = in_words(self)
        return f"{text}, {self.exception}" if self.exception not in ("", text) and self.told else text

    @property
    def place(self) -> str:
        """Where it was, as far as that can be compared; "" where nothing tells."""
        if self.marker and not (self.reported and self.stack):
            return self.marker
        if self.stack:
            return self.stack[0]
        return _CHANGING.sub("#", self.last_line)

    @property
    def alike(self) -> tuple[str, str]:
        """Runs of which this is the same ended alike."""
        return (self.ending, self.place) if self.told else (self.ending, "")


def how_ended(code: int) -> tuple[How, str]:
    """What an exit code as a shell gives it means, and the signal's name."""
    if code == 0:
        return "well", ""
    if code > 128:
        try:
            return "signal", signal.Signals(code - 128).name
        except ValueError:
            pass  # an exit code of the program's own
    return "code", ""


def in_words(end: RunEnd) -> str:
    """How it ended, in words."""
    match end.how:
        case "well":
            return "ended well"
        case "hung":
            return "hung"
        case "cut":
            return "was cut off by Ctrl-C"
        case "signal":
            return end.signal
        case _:
            return f"exit code {end.code}"


def frames_shown(frames: tuple[Frame, ...]) -> tuple[str, ...]:
    """Frames as they are compared and shown, without those by which a program dies."""
    kept = [frame for frame in frames if not _HELPERS.match(frame.function)] or list(frames)
    return tuple(_frame(frame) for frame in kept[:_FRAMES])


def _frame(frame: Frame) -> str:
    where = f" at {frame.file.rpartition('/')[2]}:{frame.line}" if frame.file and frame.line else ""
    named = where or not frame.module or frame.function.startswith(f"{frame.module}+")
    return f"{frame.function}{where}" if named else f"{frame.function} in {frame.module}"


def stack_of(stacks: tuple[Stack, ...]) -> tuple[str, ...]:
    """Frames of the stack that tells most of a hang: the first that has any."""
    return next((frames_shown(stack.frames) for stack in stacks if stack.frames), ())
