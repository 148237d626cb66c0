"""Dumped tensors in the state: entries, previews, and comparisons with a golden dump.

Values themselves stay in their file; the state has numbers and pictures of fixed size, made on request.

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
    """The values of a task's argument at one stage.

    Attributes:
        name: of the task, `r1t2`.
        stage: `before` or `after` the task ran.
        note: a problem of the values, or a scalar's value.
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
    """A dump of tensors.

    Attributes:
        path: its manifest, or its payload if it has none.
        count: number of entries; `rows` has the first `ROWS`, and those of tasks that differ.
        problems: sentences on missing data.
        replaced: a payload whose manifest has appeared: the dump with this path no longer exists.
    """

    path: str
    count: int
    rows: tuple[ValueRow, ...] = ()
    problems: tuple[str, ...] = ()
    replaced: bool = False


class ValuePreview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Preview of a tensor.

    Attributes:
        sample: which elements were read, if not all.
        edges: of the histogram's bins, as text; one more than `counts`.
        heat: rows of the heat map: a digit a cell, 0 the least and 9 the greatest mean; N has NaN, I Inf, ? is missing.
        numbers: the values, as numpy prints them.
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
    """A task that differs from the golden run.

    Attributes:
        verdict: `culprit`, `order`, `given`, `shape`, `inherited` or `uncompared` (livedbg.values.divergence); against
            golden data also `candidate`: one of several that may have computed wrong values.
        arguments: which of its arguments differ, and how.
    """

    task: str
    verdict: str
    sentence: str
    arguments: tuple[str, ...] = ()


class ValueComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Comparison of a dump with a golden one.

    Attributes:
        first: identifier of the task that diverges first, or None.
        summary: what was compared, and how exactly.
        tasks: those that differ, in the order in which they were compared.
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
    """Name each dump by its grandparent folder, relative to their common prefix.

    If these names are not unique, the parent folder is used, then the whole path.
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
