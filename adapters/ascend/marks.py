"""The place and time of a line of a log: the evidence that every claim of the model carries."""

from __future__ import annotations

from msgspec import Struct

from livedbg.model import Evidence


class Mark(Struct, frozen=True):
    """One line of one source.

    Attributes:
        name: of the log or file, or what else was read.
        text: the line.
        wall_ns: its time, or that of the nearest line before it that has one.
        exact: the time is its own.
        kind: `log` or `file`.
        seen: it was read as it came, so that `wall_ns` is right to a second.
        log: id of its log.
        line: its number there, from 1.
        counted: its time follows from a count of nanoseconds that the runtime wrote, and not from a date, which whoever
            collects lines may write by another clock, or later.
    """

    name: str
    text: str
    wall_ns: int | None = None
    exact: bool = False
    kind: str = "log"
    seen: bool = False
    log: str = ""
    counted: bool = False
    line: int | None = None

    @property
    def source(self) -> str:
        """`err.txt:214`."""
        return self.evidence().place

    def evidence(self) -> Evidence:
        """The same as evidence of a diagnostic."""
        at = self.wall_ns if self.exact or self.seen or self.kind == "file" else None
        if self.kind in ("log", "file"):
            return Evidence(kind=self.kind, text=self.text, file=self.name, line=self.line, at_wall_ns=at, log=self.log)
        return Evidence(kind=self.kind, text=self.text, source=self.name, at_wall_ns=at)


NOWHERE = Mark("", "")
"""For what follows from no single line."""
