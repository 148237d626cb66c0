"""Whether a program went on after an exception that its log shows: then it was handled, or another one threw it.

Invariants:
    survived.V1. An exception after which the same log goes on is no crash: for 30 s by its own times, for 200 lines, or
        with ordinary lines that no crash leaves behind.
    survived.V2. What programs print after a crash (summaries of launchers, exit codes, further tracebacks) is no
        going on.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.analysis.rules.words import duration, many
from livedbg.model import ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["survived"]

_GOES_ON_NS: Final = 30_000_000_000
_LINES: Final = 200
_ORDINARY: Final = 5
"""So many ordinary lines are more than a wrapper, a launcher or an exit handler prints."""

_POST_MORTEM: Final = re.compile(
    r"error|exit|fail|abort|kill|signal|terminat|crash|exception|warn|leak|traceback|core|dump|cancel|interrupt|stop"
    r"|shut|clean|destroy|clos|finish|done|elapsed|summar|history|sync|upload|saved|report|see |wandb|srun|slurm|make"
    r"|root cause|host|rank|worker|process|pid|returned|status|code|^\s*(?:real|user|sys|at|in|from|#\d+|0x)\b"
    r"|^\W*$|^\s",
    re.IGNORECASE,
)
"""Words of lines that programs, launchers and shells print after a crash."""


def survived(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """What shows that the program went on after an exception of a log; "" if nothing does."""
    if hit.survived:
        return hit.survived
    source = snapshot.log_sources.get(hit.source or "")
    if source is None:
        return ""
    later = sorted(
        (other for other in snapshot.exceptions.values() if other.source == hit.source and _after(other, hit)),
        key=lambda other: (other.line or 0, other.at_wall_ns or 0),
    )
    chain = [hit, *(other for other in later if not other.survived)]
    for one, following in zip(chain, [*chain[1:], None], strict=True):
        gap = _gap(one, following, source)
        if gap:
            return gap
    count = _ordinary(chain[-1], snapshot)
    return f"its log goes on with {many(count, 'ordinary line')}" if count >= _ORDINARY else ""


def _after(other: ExceptionHit, hit: ExceptionHit) -> bool:
    if other.id == hit.id:
        return False
    return (other.line or 0, other.at_wall_ns or 0) > (hit.line or 0, hit.at_wall_ns or 0)


def _gap(hit: ExceptionHit, following: ExceptionHit | None, source: LogSource) -> str:
    """How long the log goes on until the next exception, or its end; "" if that is not long."""
    end_ns = following.at_wall_ns if following is not None else source.last_wall_ns
    if end_ns is not None and hit.at_wall_ns is not None and end_ns - hit.at_wall_ns >= _GOES_ON_NS:
        return f"its log goes on for {duration(end_ns - hit.at_wall_ns)}"
    end = following.line if following is not None else source.lines
    if end is not None and hit.line is not None and end - hit.line >= _LINES:
        return f"its log goes on for {many(end - hit.line, 'line')}"
    return ""


def _ordinary(hit: ExceptionHit, snapshot: Snapshot) -> int:
    """How many lines after an exception are such as a program prints that goes on."""
    if hit.line is None:
        return 0
    return sum(
        record.source == hit.source and (record.line or 0) > hit.line and _is_ordinary(record)
        for record in snapshot.recent_logs
    )


def _is_ordinary(record: LogRecord) -> bool:
    plain = record.severity.rank <= Severity.INFO.rank and "\n" not in record.text
    return plain and _POST_MORTEM.search(record.text) is None
