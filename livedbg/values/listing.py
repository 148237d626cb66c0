"""Entries of a dump as rows of a table and as JSON values (schema `livedbg.values/1`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from livedbg.values.dtypes import as_floats
from livedbg.values.dump import Dump
from livedbg.values.entries import Entry
from livedbg.values.statistics import histogram, statistics
from livedbg.values.tensor import Tensor

COLUMNS = ("#", "TASK", "KERNEL", "STAGE", "ROLE", "ARG", "TYPE", "SHAPE", "BYTES", "NOTE")
_RIGHT = {"#", "ARG", "BYTES"}
_LISTED = 1000

Json = dict[str, object]


def shape_text(shape: Sequence[int]) -> str:
    """`[2, 3]`."""
    return f"[{', '.join(map(str, shape))}]"


def row(dump: Dump, entry: Entry) -> tuple[str, ...]:
    """The cells of an entry, as `COLUMNS` names them."""
    note = dump.state(entry)
    if entry.scalar:
        note = f"= {scalar_text(entry)}"
    if entry.ambiguous:
        note += ", one of several equal scalars"
    return (
        str(entry.number),
        dump.short_name(entry.task),
        dump.kernel(dump.kernels_of(entry.task)),
        entry.stage,
        entry.role,
        str(entry.arg),
        entry.dtype,
        shape_text(entry.shape),
        str(entry.bin_size),
        note,
    )


def scalar_text(entry: Entry) -> str:
    """A scalar's value; the writer says null for NaN."""
    if entry.value is None:
        return "NaN"
    return str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value).replace("$", "")


def title(dump: Dump, entry: Entry) -> str:
    """An entry in one line."""
    kernel = dump.kernel(dump.kernels_of(entry.task))
    words = [dump.short_name(entry.task) + (f" ({kernel})" if kernel else ""), entry.stage, entry.role]
    return f"#{entry.number} {' '.join(words)} arg {entry.arg}: {entry.dtype} {shape_text(entry.shape)}"


def table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a table; columns that are empty everywhere are left out."""
    cells = [COLUMNS, *rows]
    used = [column for column in range(len(COLUMNS)) if any(line[column] for line in cells[1:])]
    widths = {column: max(len(line[column]) for line in cells) for column in used}
    for line in cells:
        words = [
            line[column].rjust(widths[column]) if COLUMNS[column] in _RIGHT else line[column].ljust(widths[column])
            for column in used
        ]
        yield "  ".join(words).rstrip()


def entry_json(dump: Dump, entry: Entry) -> Json:
    """An entry for a program."""
    document: Json = {
        "number": entry.number,
        "task": dump.short_name(entry.task),
        "task_id": entry.task,
        "kernels": list(dump.kernels_of(entry.task)),
        "kernel": dump.kernel(dump.kernels_of(entry.task)),
        "stage": entry.stage,
        "role": entry.role,
        "arg": entry.arg,
        "kind": entry.kind,
        "dtype": entry.dtype,
        "shape": list(entry.shape),
        "strides": list(entry.strides),
        "start_offset": entry.start_offset,
        "bytes": entry.bin_size,
        "state": dump.state(entry) or "ok",
    }
    if entry.scalar:
        document["value"] = entry.value
    return document


def tensor_json(tensor: Tensor, views: frozenset[str]) -> Json:
    """What was asked for of a tensor, for a program; not more than the first 1000 numbers."""
    document: Json = {}
    known = statistics(tensor) if views & {"stats", "histogram"} else None
    if known is not None and "stats" in views:
        document["statistics"] = {
            name: number(value) if isinstance(value, float) else value
            for name in known.__slots__
            for value in (getattr(known, name),)
        }
    if known is not None and "histogram" in views:
        found = histogram(tensor, known)
        document["histogram"] = None if found is None else {"edges": found.edges, "counts": found.counts}
    if "numbers" in views:
        block = tensor.block(0, _LISTED)
        exact = block if block.dtype.kind in "iu" else as_floats(block)
        document["numbers"] = [number(value) for value in np.asarray(exact).tolist()]
    return document


def number(value: float) -> float | str:
    """A number as JSON has it: what is not finite as a word."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)
