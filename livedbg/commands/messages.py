"""Messages beside a result, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from livedbg.analysis.verdict import is_blind
from livedbg.session.view import Update
from livedbg.text.sanitize import clean


def warn(sentence: str, remedy: str = "") -> None:
    """Something to say beside the result. Names of files and what tools said are data: they are sanitised here."""
    print(f"livedbg: {clean(sentence)}", file=sys.stderr)
    if remedy:
        print(f"  try: {clean(remedy)}", file=sys.stderr)


def warn_all(problems: Sequence[Exception]) -> None:
    """Say what can be seen in part only."""
    for problem in problems:
        message, _, remedy = str(problem).partition("\n")
        warn(message, remedy)


def why_blind(update: Update) -> None:
    """Print, on standard error, which source can't tell, and the remedy: the reason for exit code 3."""
    for finding in update.diagnosis.findings.values():
        if is_blind(finding):
            warn(finding.sentence, finding.next[0] if finding.next else "")
