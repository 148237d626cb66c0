"""New findings of an update, as text or as one JSON object per line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.cli.streams import is_unread
from livedbg.report.lines import finding_line, verdict_line
from livedbg.session.view import Update
from livedbg.text.json_text import json_line
from livedbg.text.quantities import clock

_HOLDS_S: Final = 3.0
_BAD: Final = frozenset((VerdictState.CRASHED, VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.DIVERGED))


class FindingsPrinter:
    """Prints each finding once, and the verdict when it changes.

    A verdict of a hang or a crash is printed at once, also when others are stuck than before. Another one is printed
    when it has held for `_HOLDS_S`: which threads of a healthy job wait changes all the time.

    Args:
        as_json: one JSON object a line.
        error: to standard error instead of standard output.
    """

    def __init__(self, as_json: bool, *, error: bool = False) -> None:
        self._as_json = as_json
        self._file = sys.stderr if error else sys.stdout
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._verdict: tuple[str, frozenset[str]] | None = None
        self._next: tuple[str, frozenset[str]] | None = None
        self._next_ns = 0
        self._looked_last = False

    def show(self, update: Update, *, last: bool = False) -> None:
        """Print what is new in an update.

        Args:
            update: it.
            last: nothing is printed after it.
        """
        for line in self.lines(update, last=last):
            print(line, file=self._file, flush=True)

    def check(self) -> None:
        """See that somebody reads; what comes next may come in hours.

        Raises:
            BrokenPipeError: nobody does.
        """
        if is_unread(self._file):
            raise BrokenPipeError

    def lines(self, update: Update, *, last: bool = False) -> Iterator[str]:
        """The lines that say what is new."""
        verdict = update.diagnosis.verdict
        at_ns = update.snapshot.now().wall_ns
        if self._looked_last and not update.diagnosis.is_looking:
            self._verdict = None  # what was said was that it looks
        if self._changes(verdict, update.snapshot.now().mono_ns, last or update.ended):
            yield self._verdict_line(verdict, at_ns)
        self._looked_last = update.diagnosis.is_looking
        for name, finding in update.diagnosis.findings.items():
            key = (finding.rule, finding.entities)
            if key not in self._said:
                self._said.add(key)
                yield self._finding_line(name, finding, at_ns)

    def _changes(self, verdict: Verdict, mono_ns: int, last: bool) -> bool:
        """Whether the verdict is to be printed."""
        bad = verdict.state in _BAD
        now = (verdict.state.value, frozenset(verdict.roots) if bad else frozenset())
        if now == self._verdict:
            self._next = None
            return False
        if now != self._next:
            self._next, self._next_ns = now, mono_ns
        if self._verdict is not None and not bad and not last and mono_ns - self._next_ns < _HOLDS_S * 1e9:
            return False
        self._verdict, self._next = now, None
        return True

    def _verdict_line(self, verdict: Verdict, at_ns: int) -> str:
        if self._as_json:
            return json_line(verdict_line(verdict, at_ns))
        return f"{clock(at_ns)} {verdict.state.value.upper():<8} {verdict.sentence}"

    def _finding_line(self, name: str, finding: Finding, at_ns: int) -> str:
        if self._as_json:
            return json_line(finding_line(name, finding, at_ns))
        return f"{clock(at_ns)} {finding.severity.value:<8} {finding.sentence} [{finding.rule}]"
