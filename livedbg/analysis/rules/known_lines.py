"""The known lines of a log, and what matters of each for whether a program went on after an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from livedbg.logs.milestones import completes, restarts, step_of
from livedbg.logs.testruns import ends_tests
from livedbg.model import LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["KNOWN", "KnownLine"]

_POST_MORTEM: Final = re.compile(
    r"error|exit|fail|abort|kill|signal|terminat|crash|exception|warn|leak|traceback|core|dump|cancel|interrupt|stop"
    r"|shut|clean|destroy|clos|finish|done|elapsed|summar|history|sync|upload|saved|report|see |wandb|srun|slurm|make"
    r"|root cause|host|rank|worker|process|pid|returned|status|code|^(?:real|user|sys|at|in|from|#\d+|0x)\b"
    r"|assert|backtrace|stack|thread|debug|environ|version|https?://|memory|alloc|import |module"
    r"|\w:\d+:\d+ \[\d+\] \w+ info\b"
    r"|^(?:for|set|you|please|try|use|run|compile|consider|search|note|hint|if|to|and|frame)\b"
    r"|^[\w.]+ = |\bfd\.|^\w[\w:~<>]*\(.*\)$|[;{}]\s*$"
    r"|attempted to trace the following|compilation metrics"
    r"|\] (?:\]|  \* .+:\d+|Function, Runtimes .+|[\w.]+, \d+\.\d{4})$"
    r"|^[^\w\[(<]|^\s*$",
    re.IGNORECASE,
)
"""Words of lines that programs, launchers, runtimes and shells print after a crash; tables, advice and source text."""


class KnownLine(Struct, frozen=True):
    """What matters of one record that is known.

    Attributes:
        number: of its first line.
        numbers: of all its lines.
        writer: the rank or worker that wrote it, or "".
        ordinary: no crash leaves such a line behind.
        tests: a test run ends here.
        text: its first line.
        step: number of the step that it reports.
        completes: it says that the run has reached its end.
        restarts: it says that a launcher starts the workers again.
    """

    number: int
    numbers: Sequence[int]
    wall_ns: int | None
    writer: str
    ordinary: bool
    tests: bool
    text: str
    step: float | None = None
    completes: bool = False
    restarts: bool = False


class _Lines:
    """The known lines of each log, kept as long as the records stay the same."""

    def __init__(self) -> None:
        self._records: Sequence[LogRecord] = ()
        self._lines: dict[tuple[str, int | None], tuple[KnownLine, ...]] = {}

    def of(self, snapshot: Snapshot, source: LogSource) -> tuple[KnownLine, ...]:
        """The lines of one log, in its order."""
        if self._records is not snapshot.recent_logs:
            self._records, self._lines = snapshot.recent_logs, {}
        key = (source.id, source.lines)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._lines[key] = _known(snapshot.recent_logs, source)
        return lines


KNOWN: Final = _Lines()


def _known(records: Iterable[LogRecord], source: LogSource) -> tuple[KnownLine, ...]:
    """The records of a log that are known, with their numbers.

    A big log's newest records come without numbers, which are counted from its end.
    """
    own = [record for record in records if record.source == source.id]
    found = [_line(record, record.line) for record in own if record.line is not None]
    found.sort(key=lambda line: line.number)
    number = found[0].number if found else source.lines + 1 if source.lines is not None else None
    if number is None:
        return ()
    before: list[KnownLine] = []
    for record in reversed([record for record in own if record.line is None]):
        number -= record.text.count("\n") + 1
        before.append(_line(record, max(number, 1)))
    return (*reversed(before), *found)


def _line(record: LogRecord, number: int) -> KnownLine:
    text = record.text.partition("\n")[0]
    tests = ends_tests(record.text)
    plain = record.severity.rank <= Severity.INFO.rank and "\n" not in record.text
    return KnownLine(
        number,
        record.lines or range(number, number + record.text.count("\n") + 1),
        record.wall_ns,
        record.writer,
        plain and _POST_MORTEM.search(text) is None,
        tests,
        text,
        step_of(text) if plain else None,
        plain and completes(text),
        restarts(text),
    )
