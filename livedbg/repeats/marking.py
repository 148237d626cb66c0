"""Finds the last step of each run in its output: the last marker that began and did not end, and the last line.

Invariants:
    marking.K3. Output is read from its files when needed: the memory for a run does not grow with its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from livedbg.repeats.lines import lines_of
from livedbg.repeats.marker_pairs import found_pairs
from livedbg.repeats.markers import Pair, known_pairs, last_open
from livedbg.repeats.outcome import RunEnd

__all__ = ["Ran", "marked"]

_MOST_RUNS: Final = 12
"""Number of runs in whose output pairs of markers are detected."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended.

    Attributes:
        outputs: files with what it logged and printed, standard output and error last.
    """

    end: RunEnd
    outputs: tuple[Path, ...]


def marked(runs: Sequence[Ran]) -> Iterator[Ran]:
    """The same runs with their markers, by known pairs and by pairs that the output shows."""
    searched = sorted(runs, key=lambda ran: not ran.end.bad)[:_MOST_RUNS]
    shown = [lines for ran in searched for path in ran.outputs if (lines := lines_of(path))]
    pairs: list[Pair] = [*known_pairs(), *found_pairs(shown)]
    for ran in runs:
        yield replace(ran, end=_marked(ran, pairs))


def _marked(ran: Ran, pairs: Sequence[Pair]) -> RunEnd:
    outputs = [lines_of(path) for path in ran.outputs]
    last_line = next((lines[-1] for lines in outputs[-2:] if lines), "")
    for lines in outputs:
        marker = last_open(lines, pairs)
        if marker is not None:
            return structs.replace(ran.end, marker=marker.text, others=marker.others, last_line=last_line)
    return structs.replace(ran.end, marker="", others=0, last_line=last_line)
