"""The exit code of a command (docs/report-schema.md lists them)."""

from __future__ import annotations

from livedbg.analysis.verdict import INCONCLUSIVE, exit_code
from livedbg.session.view import Update

TIME_LIMIT = 4
"""Exit code: a time limit ended it before anything was known."""


def code_of(update: Update, *, in_time: bool = True) -> int:
    """The exit code of a verdict.

    Args:
        update: the last one.
        in_time: no time limit ended the command; else an inconclusive verdict is TIME_LIMIT.
    """
    code = exit_code(update.diagnosis.verdict, update.diagnosis.findings.values())
    return code if in_time or code != INCONCLUSIVE else TIME_LIMIT
