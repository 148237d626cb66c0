"""Options of the app: by the command line, the environment and the terminal."""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TextIO

from livedbg.model.errors import UsageError

NEXT_STEP: Final = -1
"""What the app ends with when the user asks for the next step of a guide: no exit code."""

LEFT_RUNNING: Final = -2
"""What the app ends with when the user leaves the command running that livedbg started: no exit code."""


class Colours(StrEnum):
    FULL = "full"
    SIXTEEN = "16"
    NONE = "none"


class GuideKeys(Protocol):
    """A guide that the app is one step of. Its methods return at once."""

    title: str
    """This step."""
    following: str
    """The next one; "": there is none."""
    ending: str
    """What is said where there is none."""

    def look(self) -> None:
        """Ask for the findings so far."""
        ...

    def found(self) -> Sequence[tuple[str, str]] | None:
        """Return the findings as label and sentence, once; else None."""
        ...


@dataclass(frozen=True, slots=True)
class Started:
    """A command that livedbg started and would kill at its end: the app asks before it quits.

    Attributes:
        name: as the user knows it.
        note: warning before it is left or killed, one sentence.
        runs: returns whether it still runs, at once.
    """

    name: str
    note: str
    runs: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Options of the app; None means: find out.

    Attributes:
        theme: `dark`, `contrast` or `colour-blind`.
        low_bandwidth: fewer paints, no animation.
        no_mouse: leave the mouse to the terminal.
        interval: seconds between two paints of new state.
        start: name of the screen that is shown first.
        clock: wall clock in nanoseconds, for the header of a live session.
        guide: the step of a guide that is shown.
        started: the command that livedbg started, and that its end would kill.
    """

    theme: str = "dark"
    ascii: bool | None = None
    low_bandwidth: bool = False
    no_mouse: bool = False
    interval: float | None = None
    colours: Colours | None = None
    start: str = "overview"
    clock: Callable[[], int] = time.time_ns
    guide: GuideKeys | None = None
    started: Started | None = None


def check_terminal(environment: Mapping[str, str], *, is_terminal: bool) -> None:
    """Refuse a terminal that can't show the app.

    Raises:
        UsageError: with a command to run instead.
    """
    instead = "run `livedbg report TARGET` for the same as text, or `livedbg watch TARGET` to follow it"
    if not is_terminal:
        raise UsageError("The terminal app needs a terminal; standard input or output is none.", instead)
    term = environment.get("TERM", "")
    if term in {"", "dumb", "unknown"}:
        raise UsageError(f"This terminal (TERM={term or 'not set'}) can't show the app.", instead)


def wants_ascii(
    options: AppOptions, output: TextIO | None = None, environment: Mapping[str, str] | None = None
) -> bool:
    """Return whether to draw with ASCII only: asked for, a locale without UTF-8, or the console of Linux with its few
    signs.

    `environment` is that of the start; Python itself sets LC_CTYPE in the C locale (PEP 538).
    """
    if options.ascii is not None:
        return options.ascii
    given = _started_with() if environment is None else environment
    locale = next((v for n in ("LC_ALL", "LC_CTYPE", "LANG") if (v := given.get(n))), "")
    if locale in {"C", "POSIX"} or given.get("TERM") == "linux":
        return True
    stream = output if output is not None else sys.__stdout__
    try:
        return codecs.lookup(getattr(stream, "encoding", None) or "ascii").name != "utf-8"
    except LookupError:
        return True


def _started_with() -> Mapping[str, str]:
    """Return the environment of this process as the kernel keeps it."""
    try:
        entries = Path("/proc/self/environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return os.environ
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def colours_of(options: AppOptions, environment: Mapping[str, str]) -> Colours:
    """Return how many colours to use: NO_COLOR, a terminal of 16 colours, or all."""
    if options.colours is not None:
        return options.colours
    if environment.get("NO_COLOR"):
        return Colours.NONE
    term = environment.get("TERM", "")
    if environment.get("COLORTERM") in {"truecolor", "24bit"} or "256" in term or "direct" in term:
        return Colours.FULL
    plain = {"linux", "xterm-color", "ansi", "vt220", "vt100", "screen", "rxvt", "cygwin", "xterm-16color"}
    return Colours.SIXTEEN if term in plain or term.endswith("-16color") else Colours.FULL


def interval_of(options: AppOptions, environment: Mapping[str, str]) -> float:
    """Return the seconds between two paints of new state: 4 Hz here, 2 Hz over ssh, once in 1.25 s on a slow line."""
    if options.interval is not None:
        return options.interval
    if options.low_bandwidth:
        return 1.25  # the clock ticks a quarter as often: once in 5 s
    return 0.5 if environment.get("SSH_CONNECTION") else 0.25
