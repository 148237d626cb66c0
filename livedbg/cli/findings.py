"""New findings of an update, as text or as one JSON object per line."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from livedbg.analysis.diagnosis import Finding, Verdict
from livedbg.cli.streams import is_unread
from livedbg.report.lines import finding_line, verdict_line
from livedbg.session.view import Update
from livedbg.text.json_text import json_line
from livedbg.text.quantities import clock

__all__ = ["FindingsPrinter"]


class FindingsPrinter:
    """Prints each finding once, and the verdict whenever its state changes.

    Args:
        as_json: one JSON object a line.
        error: to standard error instead of standard output.
    """

    def __init__(self, as_json: bool, *, error: bool = False) -> None:
        self._as_json = as_json
        self._file = sys.stderr if error else sys.stdout
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._verdict: tuple[str, tuple[str, ...]] | None = None

    def show(self, update: Update) -> None:
        """Print what is new in an update."""
        for line in self.lines(update):
            print(line, file=self._file, flush=True)

    def check(self) -> None:
        """See that somebody reads; what comes next may come in hours.

        Raises:
            BrokenPipeError: nobody does.
        """
        if is_unread(self._file):
            raise BrokenPipeError

    def lines(self, update: Update) -> Iterator[str]:
        """The lines that say what is new."""
        verdict = update.diagnosis.verdict
        at_ns = update.snapshot.now().wall_ns
        if (now := (verdict.state.value, verdict.roots)) != self._verdict:
            self._verdict = now
            yield self._verdict_line(verdict, at_ns)
        for name, finding in update.diagnosis.findings.items():
            key = (finding.rule, finding.entities)
            if key not in self._said:
                self._said.add(key)
                yield self._finding_line(name, finding, at_ns)

    def _verdict_line(self, verdict: Verdict, at_ns: int) -> str:
        if self._as_json:
            return json_line(verdict_line(verdict, at_ns))
        return f"{clock(at_ns)} {verdict.state.value.upper():<8} {verdict.sentence}"

    def _finding_line(self, name: str, finding: Finding, at_ns: int) -> str:
        if self._as_json:
            return json_line(finding_line(name, finding, at_ns))
        return f"{clock(at_ns)} {finding.severity.value:<8} {finding.sentence} [{finding.rule}]"
