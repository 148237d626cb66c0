"""What the state says of a dump compared with golden data of its program (livedbg.model.dumps)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from livedbg.model import ids
from livedbg.model.dumps import TaskComparison, ValueComparison
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line
from livedbg.values.compare import Tolerance
from livedbg.values.dump import Dump, open_dump, task_name
from livedbg.values.golden import GoldenFile
from livedbg.values.program import ProgramComparison, compare_program
from livedbg.values.program_text import cause, conclusions, program_lines
from livedbg.values.wiring import wiring_of

__all__ = ["against_golden"]

_LINES: Final = 60
_TASKS: Final = 200


def against_golden(path: Path, name: str, golden: str, files: Sequence[GoldenFile]) -> ValueComparison:
    """A dump against golden inputs and outputs.

    Raises:
        SourceError: the dump can't be read, or nothing of the golden data can be compared with it.
    """
    with open_dump(path) as dump:
        found = compare_program(dump, wiring_of(dump), files, Tolerance())
        lines = tuple(clean_line(line, 400) for line in program_lines(dump, found) if line)[:_LINES]
        if not any(match.by or match.differs for match in found.matches):
            why = next((match.note for match in found.matches if match.note), "")
            raise SourceError(f"no golden tensor could be matched: {clean_line(why, 400)}", "", "nothing-in-common")
        tasks = tuple(_tasks(dump, found))
        said = list(conclusions(dump, found))
        unread = sum(not match.by for match in found.matches)
        head = clean_line(said[0], 400) if said else "No golden tensor that could be compared differs."
        if unread and not said:
            head = f"No golden tensor differs, but {unread} of {len(found.matches)} were not compared."
        first = next((one.task for one in tasks if one.verdict == "culprit"), tasks[0].task if tasks else None)
        return ValueComparison(path=name, golden=golden, first=first, headline=head, summary=lines, tasks=tasks)


def _tasks(dump: Dump, found: ProgramComparison) -> Iterator[TaskComparison]:
    """The culprit, and those that may be it."""
    wrong = [match for match in found.matches if match.differs]
    if any(not match.file.output for match in wrong):  # given other data: that says nothing about kernels
        return
    seen: set[int] = set()
    for match in sorted(wrong, key=lambda match: not match.certain):
        for writer in match.writers:
            if writer not in seen and len(seen) < _TASKS:
                seen.add(writer)
                yield TaskComparison(
                    task=ids.task("ascend", task_name(writer)),
                    verdict="culprit" if match.certain else "candidate",
                    sentence=clean_line(cause(dump, match), 400),
                )
