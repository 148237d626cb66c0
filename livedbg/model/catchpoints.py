"""Catchpoints: patterns of exception types, functions and signals, and the presets for them.

A pattern is an exact type name (`std::runtime_error`), a glob (`std::*_error`), or a regular expression between slashes
(`/Error$/`). It is compared with the demangled name of the thrown type and, where they can be read, with the names of
its bases. The name of a signal (`SIGSEGV`) means that signal. A pattern after `python:` matches Python exceptions.

Invariants:
    catchpoints.H1. A name or glob matches whole names: templates and namespaces are part of them.
    catchpoints.H2. A preset is a name for a moment and patterns, which it shows; it catches nothing else.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from livedbg.model.errors import UsageError
from livedbg.text.patterns import lazy_re

HOLD_MOST_S: Final = 600
"""A thread that is held goes on after so many seconds, whatever was asked for."""


class Moment(StrEnum):
    """The moment at which a catchpoint fires."""

    THROW = "throw"
    RETHROW = "rethrow"
    CATCH = "catch"
    RAISE = "raise"
    """A Python exception is raised."""
    CALL = "call"
    """A function is called: `abort`, `_exit`, any one that the target exports."""
    SIGNAL = "signal"
    """A signal is delivered: before its handler runs, or before it ends the process."""


class CatchpointState(StrEnum):
    """State of a catchpoint."""

    ARMING = "arming"
    ARMED = "armed"
    DONE = "done"
    FAILED = "failed"


class Catchpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A catchpoint, as panels and reports show it.

    Attributes:
        process: identifier of the process; its children are included if `follow` is set.
        pattern: as the user wrote it: a type, a preset, a function.
        message: catch only exceptions with this text in their message; "" for all.
        engine: `probes` (kernel probes) or `registers` (debug registers), both without a stop; or `gdb`, which stops a
            thread.
        lost: events that the kernel dropped; for `gdb`: threads that hit it while another one was stopped.
        ending: how the process ended, such as `was killed by SIGSEGV`; "" while it lives.
        stopped_thread: identifier of the thread that is stopped at it now; `standing` in recordings and JSON.
        until_wall_ns: when that thread is resumed at the latest.
        until_why: why that is earlier than requested.
    """

    id: str
    process: str
    pattern: str
    moment: Moment = Moment.THROW
    message: str = ""
    engine: str = ""
    state: CatchpointState = CatchpointState.ARMING
    note: str = ""
    remedy: str = ""
    follow: bool = False
    seen: int = 0
    hits: int = 0
    lost: int = 0
    ending: str = ""
    stopped_thread: str | None = field(default=None, name="standing")
    until_wall_ns: int | None = None
    until_why: str = ""


class Preset(Struct, frozen=True, kw_only=True):
    """A named set of patterns, and types that it leaves out (`but`) with their subclasses."""

    moment: Moment
    patterns: tuple[str, ...]
    about: str
    but: tuple[str, ...] = ()


FAULTS: Final = "signals"
"""The preset for signals of a program's own faults."""

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "any": Preset(moment=Moment.THROW, patterns=("*",), about="every C++ exception"),
        "python": Preset(
            moment=Moment.RAISE,
            patterns=("*",),
            about="every Python exception except those that end a loop or a generator; python:TYPE for one type",
            but=("StopIteration", "StopAsyncIteration", "GeneratorExit"),
        ),
        "abort": Preset(
            moment=Moment.CALL, patterns=("abort", "__assert_fail"), about="abort(), failed asserts, std::terminate"
        ),
        "exit": Preset(moment=Moment.CALL, patterns=("exit", "_exit"), about="calls of exit() and _exit()"),
        FAULTS: Preset(
            moment=Moment.SIGNAL,
            patterns=("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP"),
            about="signals caused by faults of the program, handled or fatal (SIGSYS, SIGTRAP: only fatal)",
        ),
    }
)
"""Presets for any process, by name."""


_PYTHON: Final = "python:"
_EVERY: Final = frozenset((Moment.THROW, Moment.RETHROW, Moment.CATCH))
"""The words of gdb: every C++ exception, at that moment."""
_SIGNAL: Final = lazy_re(r"SIG[A-Z][A-Z0-9]*")


class Pattern:
    """A matcher for names.

    Args:
        text: exact name, glob, or `/regular expression/`.
        but: names that never match.

    Raises:
        UsageError: the regular expression is invalid.
    """

    def __init__(self, text: str, but: Iterable[str] = ()) -> None:
        self.text = text
        self._but = frozenset(but)
        self._regex: re.Pattern[str] | None = None
        if len(text) > 1 and text.startswith("/") and text.endswith("/"):
            try:
                self._regex = re.compile(text[1:-1])
            except re.error as error:
                wrong = f"{text} is not a regular expression: {error}."
                raise UsageError(wrong, "see `livedbg catch --help`") from None

    @property
    def exact(self) -> bool:
        return self._regex is None and not any(sign in self.text for sign in "*?[")

    def matches(self, names: Collection[str]) -> bool:
        """Return whether any of the names (a type and its bases) matches."""
        if not self._but.isdisjoint(names):
            return False
        if self._regex is not None:
            return any(self._regex.search(name) for name in names)
        if self.exact:
            return self.text in names
        return any(fnmatchcase(name, self.text) for name in names)


def patterns_of(text: str, presets: Mapping[str, Preset] = PRESETS) -> tuple[Moment | None, tuple[Pattern, ...]]:
    """Parse a user's pattern, preset name, or word of gdb (`throw`).

    Returns:
        The moment to catch at (None: the user may choose), and the patterns.

    Raises:
        UsageError: the text is empty, an invalid regular expression, or looks like a signal but is none.
    """
    if not text.removeprefix(_PYTHON).strip():
        raise UsageError("The pattern is empty.", "name a type, such as std::runtime_error, or 'any'")
    preset = presets.get(text)
    if preset is None and text.startswith(_PYTHON):
        return Moment.RAISE, (Pattern(text.removeprefix(_PYTHON)),)
    if preset is None and _SIGNAL.fullmatch(text):
        if text not in signal.Signals.__members__:
            remedy = f"`kill -L` prints their names; a type of that name: /^{text}$/"
            raise UsageError(f"There is no signal {text}.", remedy)
        return Moment.SIGNAL, (Pattern(text),)
    if preset is None and text in _EVERY:
        return Moment(text), (Pattern("*"),)
    if preset is None:
        return None, (Pattern(text),)
    return preset.moment, tuple(Pattern(pattern, preset.but) for pattern in preset.patterns)
