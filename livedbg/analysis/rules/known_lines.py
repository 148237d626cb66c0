"""The known lines of a log, and what matters of each for whether a program went on after an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from livedbg.logs.ending_lines import printed_at_an_end
from livedbg.logs.milestones import begins, restarts, shuts_down, step_of
from livedbg.logs.testruns import ends_tests
from livedbg.model import LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["KNOWN", "KnownLine"]


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
        restarts: it says that a launcher starts the workers again.
        begins: it says that something begins or is waited for.
        shuts_down: it says that the program ends.
    """

    number: int
    numbers: Sequence[int]
    wall_ns: int | None
    writer: str
    ordinary: bool
    tests: bool
    text: str
    step: float | None = None
    restarts: bool = False
    begins: bool = False
    shuts_down: bool = False


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
        plain and not printed_at_an_end(text),
        tests,
        text,
        step_of(text) if plain else None,
        restarts(text),
        begins(text),
        shuts_down(text),
    )
