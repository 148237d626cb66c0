"""The end of one run, and the exception or sanitizer report that explains it, of those caught or printed.

Invariants:
    outcome.T1. A report with which a sanitizer ended the run takes precedence. A report after which the run continued
        counts only if nothing else explains the end; else it is a note.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct, structs

from livedbg.logs.sanitizers import ENDED, WARNED, own_frames, place_of
from livedbg.model import ExceptionHit, Frame, Stack
from livedbg.text.patterns import lazy_re

How = Literal["well", "code", "signal", "hung", "cut"]
_WORDS: Final[dict[How, str]] = {"well": "succeeded", "hung": "hung", "cut": "interrupted by Ctrl-C"}
_FRAMES: Final = 12
_CHANGING: Final = lazy_re(r"0x[0-9a-f]+|\d+")
_RUNTIMES: Final = ("libstdc++.so", "libc++abi.so", "libgcc_s.so", "libc.so")
_HELPERS: Final = lazy_re(
    r"^(?:__cxa_\w+|_Unwind_\w+|__GI_\w+|raise|abort|__libc_message|__pthread_kill\w*|gsignal|std::terminate.*"
    r"|malloc_printerr|__interceptor_\w+|_PyErr_\w+|PyErr_\w+"
    r"|(?:__)?(?:GI_|libc_|pthread_|lll_|futex_|new_sem_)\w+|do_futex_wait.*|(?:__)?(?:poll|select|epoll_wait|syscall)"
    r"|PyThread_\w+|acquire_timed|_*(?:clock_)?nanosleep\w*)$"
)
"""Functions through which a program aborts or waits: they are not the place."""


class RunEnd(Struct, frozen=True, kw_only=True):
    """The end of one run.

    Attributes:
        run: its number, from 1.
        how: `well`, `code` (an exit code), `signal`, `hung` (time-out), or `cut` (interrupted by Ctrl-C).
        code: exit code as a shell gives it; None if livedbg killed it.
        marker: the line of the last step that began and did not end.
        others: number of other open steps.
        exception: type of the exception that ended it or whose trace it printed last, or the error of a sanitizer.
        reported: the exception is a sanitizer's report, and its first frame in the user's code is the place.
        stack: frames of the failure or of the hang; innermost first.
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
        """True if the run failed or hung."""
        return self.how not in ("well", "cut")

    @property
    def notable(self) -> bool:
        """True if the ending needs an explanation: the run failed or hung, or a sanitizer reported an error."""
        return self.bad or self.reported

    @property
    def ending(self) -> str:
        """The ending as text; equal for equal endings."""
        text = _WORDS.get(self.how) or self.signal or f"exit code {self.code}"
        return f"{text}, {self.exception}" if self.exception not in ("", text) and self.notable else text

    @property
    def place(self) -> str:
        """The place where the run ended, in a form that can be compared, or ""."""
        if self.marker and not (self.reported and self.stack):
            return self.marker
        if self.stack:
            return self.stack[0]
        return _CHANGING.sub("#", self.last_line)

    @property
    def alike(self) -> tuple[str, str]:
        """A key that is equal for runs with equal endings."""
        return (self.ending, self.place) if self.notable else (self.ending, "")


def how_ended(code: int) -> tuple[How, str]:
    """Return the meaning of an exit code as a shell gives it, and the signal's name."""
    if code == 0:
        return "well", ""
    if code > 128:
        try:
            return "signal", signal.Signals(code - 128).name
        except ValueError:
            pass  # an exit code of the program's own
    return "code", ""


def frames_shown(frames: tuple[Frame, ...]) -> tuple[str, ...]:
    """Return frames as they are compared and shown, without those through which a program aborts."""
    kept = [frame for frame in frames if not _helps(frame)] or list(frames)
    return tuple(_frame(frame) for frame in kept[:_FRAMES])


def _helps(frame: Frame) -> bool:
    """Return whether a frame is of what a program crashes or waits in at its own call: the call is the place."""
    return bool(_HELPERS.match(frame.function)) or (frame.module or "").rpartition("/")[2].startswith(_RUNTIMES)


def _frame(frame: Frame) -> str:
    where = f" at {frame.file.rpartition('/')[2]}:{frame.line}" if frame.file and frame.line else ""
    named = where or not frame.module or frame.function.startswith(f"{frame.module}+")
    return f"{frame.function}{where}" if named else f"{frame.function} in {frame.module}"


def stack_of(stacks: tuple[Stack, ...]) -> tuple[str, ...]:
    """Return frames of the first stack that has any: the most informative one of a hang."""
    return next((frames_shown(stack.frames) for stack in stacks if stack.frames), ())


_ENDED: Final = f"log: {ENDED}"
_REPORTS: Final = (_ENDED, f"log: {WARNED}")


class _EndCause(NamedTuple):
    """The exception or report that explains how a run ended.

    Attributes:
        what: has the type and the message.
        where: has the stack.
        reported: both are a sanitizer's report.
        note: a sanitizer's report that does not explain the end.
    """

    what: ExceptionHit | None = None
    where: ExceptionHit | None = None
    reported: bool = False
    note: str = ""


def end_cause(how: How, caught: Sequence[ExceptionHit], printed: Sequence[ExceptionHit]) -> _EndCause:
    """Choose the exception that explains the end of a run, of those caught and those printed in its output."""
    if how in ("hung", "cut"):
        return _EndCause()
    report = _report((*printed, *caught))
    caught, printed = _others(caught), _others(printed)
    what = where = None
    if how == "code":
        what = where = _newest(printed, caught)
    elif how == "signal":
        named = [hit for hit in caught if hit.type not in signal.Signals.__members__]
        what, where = _newest(named, printed, caught), _newest(caught, printed)
    if report is None:
        return _EndCause(what, where)
    if report.catchpoint == _ENDED or (what is None and how != "signal"):
        return _EndCause(report, report, reported=True)
    place = place_of(report.stack)
    return _EndCause(what, where, note=f"{report.type}, in {place}" if place else report.type)


def _others(hits: Sequence[ExceptionHit]) -> list[ExceptionHit]:
    return [hit for hit in hits if hit.catchpoint not in _REPORTS]


def _report(hits: Sequence[ExceptionHit]) -> ExceptionHit | None:
    """Return the first report that ended the run, else the first, with the user's code as its stack."""
    reports = [hit for hit in hits if hit.catchpoint in _REPORTS]
    hit = next((hit for hit in reports if hit.catchpoint == _ENDED), next(iter(reports), None))
    return hit if hit is None else structs.replace(hit, stack=own_frames(hit.stack) or hit.stack)


def _newest(*groups: Sequence[ExceptionHit]) -> ExceptionHit | None:
    for hits in groups:
        if hits:
            return max(reversed(hits), key=lambda hit: hit.at_wall_ns or 0)
    return None
