"""Rows of consecutive lines for a guess about their wrapping, guesses, and words that may name hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from livedbg.logs.wrapping.prefixes import Layer
from livedbg.logs.writers import Opened
from livedbg.text.patterns import lazy_re

_NO_HOST: Final = lazy_re(
    r"(?i:[gnx]pu|device|dev|rank|layer|epoch|step|core|cpu|thread|worker|stage|batch|gcc|g|clang|python|iter|phase|part"
    r"|section|case|run|trial|model|task|round|fold|test|line|block|group|node_?|hip|mlx5_|eth|ib|loss|top)[-_.]?[\d.]*$"
    r"|.*(?:[Ee]rror|[Ee]xception|[Ww]arning|\.py|\.c|\.cc|\.cpp|\.cu|\.h|\.so[.\d]*)$"
)
_NODE: Final = lazy_re(r"node_?-?\d+")


def may_be_host(name: str) -> bool:
    """Return whether a word with a number may name a host, and no device, place in a program, file or error."""
    if not any(map(str.isdecimal, name)):
        return False
    return _NO_HOST.match(name) is None or _NODE.fullmatch(name) is not None


LONGEST: Final = 12
"""Lines of a row after which a guess is proved or is none."""

BEGINS: Final = lazy_re(
    r"(?:[ +|]{0,12}(?:Exception Group )?)Traceback \(most recent call |[ |]{2,100}File \"[^\"]+\", line \d"
    r"|\[(?:rank|default)\d+\]:|\{ ?\"[\w@.$]{1,40}\" ?:|\[pod/|\[\d+,\d+\]<std|\([A-Za-z_][\w ]*pid=\d"
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\[?[VIWEFC]\d{3,4} \d\d:\d\d:\d\d"
    r"|(?!\d\d:\d\d:\d\d )[\w.-]{1,200}:\d{1,9}:\d{1,9} \[\d+\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+: |\[ *\d+\.\d{6}\] |==\d+==(?:ERROR|WARNING): |=========(?: |$)"
    r"|=======? (?:Backtrace|Memory map): |\*\*\* Error in |Fatal Python error: |[\u256d\u250c][\u2500-]{3,}"
    r"|(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):|frame #\d+: |    #\d+ 0x"
    r"|(?:ts|time)=\"?\d{4}-\d\d-\d\dT|(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d "
    r"|Program received signal SIG|#\d{1,3} {2}0x[0-9a-f]{4,16} in |forrtl: severe \(\d|goroutine \d{1,9} \["
    r"|\t\S{1,300}:\d{1,9} \+0x|\s{1,8}at [\w.$<>/]{1,200}\(|Caused by: [\w.$]{1,200}(?:Exception|Error)\b"
    r"|[Tt]hread '[^'\n]{1,60}'(?: \(\d{1,19}\))? panicked at |stack backtrace:$|note: run with `RUST_BACKTRACE="
    r"|terminate called |  what\(\): "
)
"""What is surely a line of its own, or a part of a longer text, and no piece of a line."""


SURE: Final = lazy_re(
    rf"(?:{BEGINS.pattern})|[ |]*[\^~]+ *$|={{3,}} .{{1,80}} ={{3,}}$"
    r"|\S{1,200}:\d{1,9}:(?:\d{1,9}:)? (?:fatal )?(?:error|warning|note): "
)
_PARTS: Final = lazy_re(r"\t| {4,}\S|[=_*#-]{10,}$|$")
_FEWEST_PARTS: Final = 3
_SERVICE: Final = lazy_re(r"[A-Za-z][\w.-]{0,80}-\d{1,4} +\|(?: |$)")  # a container of compose


def longer(texts: Sequence[str], enough: bool) -> bool:
    """Return whether messages are surely the lines of a longer text, and no logger's own.

    With `enough` of them, lines which only may be parts of a longer text count, too.
    """
    if any(SURE.match(text) is not None for text in texts):
        return True
    if len(texts) >= _FEWEST_PARTS and all(_SERVICE.match(text) is not None for text in texts):
        return True
    return enough and sum(_PARTS.match(text) is not None for text in texts) >= _FEWEST_PARTS


def begins_line(text: str) -> bool:
    """Return whether a text is surely a line of its own, and no piece of one."""
    return BEGINS.match(text) is not None


class Row:
    """Consecutive lines that a guess fits; no line came before (`first`), or none comes after them now (`whole`)."""

    __slots__ = ("first", "inner", "texts", "whole")

    def __init__(self, texts: Sequence[str], inner: Sequence[Opened], first: bool, whole: bool) -> None:
        self.texts, self.inner, self.first, self.whole = texts, inner, first, whole

    @property
    def sure(self) -> int:
        """The number of rows that are surely lines once they are unwrapped."""
        return sum(begins_line(one.text) for one in self.inner)

    @property
    def alone(self) -> bool:
        """Return whether there are no other lines, and all are surely lines once they are unwrapped."""
        return self.first and self.whole and len(self.texts) == self.sure

    @property
    def long(self) -> bool:
        """Return whether the row is as long as it gets, or there are no other lines."""
        return len(self.texts) >= LONGEST or (self.first and self.whole and len(self.texts) > 2)


class Guess(Struct, frozen=True, eq=False):
    """A possible wrapping, around a line at most once.

    Attributes:
        first: the characters that its lines begin with; empty: any.
        likely: an expression that all of its lines match, and few others.
        open: takes it off a line; returns None for a line that it does not fit.
        judge: returns the layer that takes it off for good, if a row proves it.
    """

    first: str
    likely: str
    open: Layer
    judge: Callable[[Row, Layer], Layer | None]

    def proved(self, row: Row) -> Layer | None:
        return self.judge(row, self.open)
