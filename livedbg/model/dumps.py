"""Dumped tensors as the state knows them: what there is, what one of them is like, how a dump compares with another.

Values themselves stay in their file; the state has numbers and pictures of fixed size, made when they are asked for.

Invariants:
    dumps.D1. Values are frozen, and their texts are sanitised (entities.M1, entities.M4).
    dumps.D2. A dump has at most `ROWS` rows, and as many again of tasks that differ; a picture of a tensor has a fixed
        size, however large the tensor is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

from msgspec import Struct

ROWS = 5_000
"""Rows of one dump in the state, besides those of tasks that differ; `livedbg values` lists all."""


class ValueRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of one task at one stage.

    Attributes:
        number: its place in the manifest.
        task: identifier of the task.
        name: of the task, `r1t2`.
        stage: `before` or `after` the task ran.
        role: `input`, `output`, `inout`.
        note: what is wrong with its values, or a scalar's value.
        there: there are values to show.
    """

    number: int
    task: str
    name: str
    kernel: str = ""
    stage: str = ""
    role: str = ""
    arg: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    size_bytes: int = 0
    note: str = ""
    there: bool = True


class ValueDump(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dump.

    Attributes:
        path: of its manifest, or of its payload where it has none.
        count: entries that it has; `rows` has the first `ROWS`, and those of tasks that differ.
        problems: what is missing, in sentences.
        replaced: a payload whose manifest has come: there is a dump of that path no more.
    """

    path: str
    count: int
    rows: tuple[ValueRow, ...] = ()
    problems: tuple[str, ...] = ()
    replaced: bool = False


class ValuePreview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tensor is like.

    Attributes:
        path: of its dump.
        number: of its entry.
        title: the entry in a line.
        sample: which elements the numbers and pictures are of, where not of all.
        goes_on: all are being read.
        statistics: words and numbers.
        edges: of the histogram's bins, as text; one more than `counts`.
        counts: elements in each bin.
        heat: rows of the heat map: a digit a cell, 0 the least and 9 the greatest mean; N has NaN, I Inf, ? is
            not there.
        legend: what the digits mean.
        numbers: the values, as numpy prints them.
        problem: why there is nothing to see.
    """

    path: str
    number: int
    title: str = ""
    sample: str = ""
    goes_on: bool = False
    statistics: tuple[tuple[str, str], ...] = ()
    edges: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    heat: tuple[str, ...] = ()
    legend: str = ""
    numbers: tuple[str, ...] = ()
    problem: str = ""


class TaskComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that is not as in the golden run.

    Attributes:
        task: identifier of the task.
        verdict: `culprit`, `order`, `given`, `shape`, `inherited` or `uncompared` (livedbg.values.divergence); against
            golden data also `candidate`: one of those that may have computed otherwise.
        sentence: the same in words.
        arguments: which of its arguments differ, and how.
    """

    task: str
    verdict: str
    sentence: str
    arguments: tuple[str, ...] = ()


class ValueComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dump against a golden one.

    Attributes:
        path: of the dump.
        golden: of what it was compared with.
        first: identifier of the task that diverges first; None where none does.
        headline: what is to be said of that.
        summary: what was compared, and how exactly.
        tasks: those that differ, in the order in which they were walked.
        problem: why nothing could be compared.
        running: it is still going on.
    """

    path: str
    golden: str
    first: str | None = None
    headline: str = ""
    summary: tuple[str, ...] = ()
    tasks: tuple[TaskComparison, ...] = ()
    problem: str = ""
    running: bool = False


P = TypeVar("P", bound=PurePath)


def places(paths: Sequence[P]) -> dict[str, P]:
    """Dumps by the folder above theirs, seen from what all of them have in common.

    Where that is the same for two of them, it is their own folder, or all of the path.
    """
    for folders in (
        {path: path.parent.parent.parts for path in paths},
        {path: path.parent.parts for path in paths},
        {path: path.parts for path in paths},
    ):
        if len(set(folders.values())) == len(folders):
            break
    common = 0
    while len({parts[: common + 1] for parts in folders.values()}) == 1 and common < min(map(len, folders.values())):
        common += 1
    if len(folders) == 1:
        common = max(0, len(next(iter(folders.values()))) - 2)
    return {"/".join(parts[common:]): path for path, parts in folders.items()}
