"""Place and time of a log line, as evidence for the model's claims."""

from __future__ import annotations

from msgspec import Struct

from livedbg.model import Evidence


class Mark(Struct, frozen=True):
    """One line of one source.

    Attributes:
        name: of the log, file or other source.
        wall_ns: its time, or that of the nearest earlier line that has one.
        exact: the time is its own.
        kind: `log` or `file`.
        seen: it was read as it was written, so `wall_ns` is accurate to a second.
        log: id of its log.
        line: from 1.
        counted: its time comes from the runtime's nanosecond counter, not from a date, which a log collector may write
            later or by another clock.
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
        """Return `err.txt:214`."""
        return self.evidence().place

    def evidence(self) -> Evidence:
        """Return it as evidence of a diagnostic."""
        at = self.wall_ns if self.exact or self.seen or self.kind == "file" else None
        if self.kind in ("log", "file"):
            return Evidence(kind=self.kind, text=self.text, file=self.name, line=self.line, at_wall_ns=at, log=self.log)
        return Evidence(kind=self.kind, text=self.text, source=self.name, at_wall_ns=at)


NOWHERE = Mark("", "")
"""For what follows from no single line."""
