"""A dump of tasks' arguments: its entries, the values behind them, and both as rows of a table and as JSON.

    with readers.open(path) as dump:   # livedbg.values.readers
        for entry in dump.entries:
            tensor = dump.tensor(entry)   # None for scalars and lost payload
            print(dump.task_name(entry.task), summary(tensor))

Nothing of the payload is read before `Tensor.block` is called. The JSON is of the schema `livedbg.values/1`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import numpy as np

from livedbg.graphs.declared import TaskGraph
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.statistics import histogram, statistics
from livedbg.values.tensor import ElementType, Payload, Stored, Tensor, element_type, exact, raw_bytes


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The values of a task's argument at one stage.

    Attributes:
        number: its place in the manifest, from 0.
        task: the runtime's 64-bit id.
        stage: `before` or `after` the task ran, or the manifest's own word.
        role: `input`, `output` or `inout`.
        kind: `tensor`, or `scalar`, whose `value` is in the manifest itself.
        shape: of the payload, which is always contiguous.
        strides: of the view in its buffer, in elements; the payload was gathered from there.
        start_offset: of the view in its buffer, in elements.
        truncated: the tensor was larger than the dump had memory for; its first part is there.
        overwritten: the payload was lost before the host had read it.
        ambiguous: one of several equal scalar arguments, not known which.
    """

    number: int
    task: int
    arg: int
    stage: str
    role: str
    kind: str
    dtype: str
    kernels: tuple[int, ...]
    value: int | float | bool | str | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    bin_offset: int
    bin_size: int
    truncated: bool
    overwritten: bool
    ambiguous: bool

    @property
    def before(self) -> bool:
        """True if the task found it, and did not leave it."""
        return self.stage == "before"

    @property
    def scalar(self) -> bool:
        return self.kind == "scalar"


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of entries; an empty field selects everything."""

    tasks: frozenset[int] = frozenset()
    stage: str = ""
    roles: frozenset[str] = frozenset()
    args: frozenset[int] = frozenset()
    kernels: frozenset[str] = frozenset()

    def of(self, dump: Dump) -> Iterator[Entry]:
        """Yield the selected entries of a dump."""
        for entry in dump.entries:
            if (
                (not self.tasks or entry.task in self.tasks)
                and (not self.stage or entry.stage.startswith(self.stage))
                and (not self.roles or entry.role in self.roles)
                and (not self.args or entry.arg in self.args)
                and (not self.kernels or self.kernels & dump.kernel_words(dump.kernels_of(entry.task)))
            ):
                yield entry


@dataclass(slots=True, kw_only=True)
class Dump(AbstractContextManager["Dump"]):
    """An opened dump.

    Attributes:
        path: the manifest, or the payload if there is no manifest.
        system: of the tasks, as in `Task.system`.
        entries: sorted by task, stage and argument.
        payload_path: None if the run wrote no values.
        payload: None if the values can't be read.
        decodable: the payload has a known format.
        orphan: it is a payload without a manifest.
        layout: the system's name for this kind of dump.
        level: how much the run was asked to dump, as the system counts it.
        names: func id -> kernel.
        kernels: task -> func ids, where the entries or the graph name them.
        problems: sentences on missing data.
        short_name: returns the name of a task by its number, such as `r1t2`.
        find_graph: reads the graph; returns it or None, and why there is none or what it lacks.
    """

    path: Path
    system: str
    entries: list[Entry] = field(default_factory=list)
    payload_path: Path | None = None
    payload: Payload | None = None
    decodable: bool = True
    orphan: bool = False
    layout: str = ""
    level: int | None = None
    names: dict[int, str] = field(default_factory=dict)
    kernels: dict[int, tuple[int, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    short_name: Callable[[int], str] = str
    graph_name: str = ""
    find_graph: Callable[[], tuple[TaskGraph | None, str]] = lambda: (None, "")
    _elements: dict[str, ElementType] = field(default_factory=dict)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        if self.payload is not None:
            self.payload.close()

    def kernel(self, kernels: tuple[int, ...]) -> str:
        """Return kernels in words: `MUL`, `MATMUL + ADD`, `func 7`; "" if unknown."""
        return " + ".join(self.names.get(kernel, f"func {kernel}") for kernel in kernels)

    def kernel_words(self, kernels: tuple[int, ...]) -> frozenset[str]:
        """Return the words that select kernels: names and func ids."""
        return frozenset(str(kernel) for kernel in kernels) | {
            self.names[kernel] for kernel in kernels if kernel in self.names
        }

    def task_name(self, task: int) -> str:
        """Return a task with its kernels: `r1t2 (MUL)`."""
        kernel = self.kernel(self.kernels_of(task))
        return f"{self.short_name(task)} ({kernel})" if kernel else self.short_name(task)

    def kernels_of(self, task: int) -> tuple[int, ...]:
        """Return func ids of a task's kernels; empty if unknown."""
        return self.kernels.get(task, ())

    def state(self, entry: Entry) -> str:
        """Return the problem of the values, or "": `overwritten`, `truncated`, `short`, `no payload`, `unread`."""
        return self.values(entry)[0]

    def tensor(self, entry: Entry) -> Stored | None:
        """Return the values of an entry, as far as they are there; None for scalars and lost payload."""
        return self.values(entry)[1]

    def values(self, entry: Entry) -> tuple[str, Stored | None]:
        """Return `state` and `tensor`."""
        if entry.scalar:
            return "", None
        if entry.overwritten:
            return "overwritten", None
        if not self.decodable:
            return "unread", None
        if self.payload is None or (entry.bin_size == 0 and 0 not in entry.shape):
            return "no payload", None
        element = self.element(entry)
        shape = (entry.bin_size,) if element.kind == "raw" else element.logical_shape(entry.shape)
        there = max(0, min(entry.bin_size, self.payload.size - entry.bin_offset))
        tensor = Stored(self.payload, entry.bin_offset, there, shape, element)
        if entry.truncated:
            return "truncated", tensor
        return ("short" if tensor.count < tensor.total else ""), tensor

    def element(self, entry: Entry) -> ElementType:
        known = self._elements.get(entry.dtype)
        if known is None:
            known = self._elements[entry.dtype] = element_type(entry.dtype) or raw_bytes(entry.dtype)
        return known


def note_losses(dump: Dump, without_values: str = "") -> None:
    """Add missing values to a dump's problems; `without_values` says why the run dumped no values on request."""
    if dump.payload is not None:
        end = max((e.bin_offset + e.bin_size for e in dump.entries if not e.scalar), default=0)
        if end > dump.payload.size:
            dump.problems.append(f"{clean_line(dump.payload.path.name)} has {dump.payload.size} of {end} bytes.")
    states = [dump.state(entry) for entry in dump.entries]
    for word, one, several, said in (
        ("truncated", "tensor is", "tensors are", "there in part only: larger than the dump's arena"),
        ("overwritten", "tensor was", "tensors were", "overwritten before the host read what was there"),
        ("short", "tensor ends", "tensors end", "with the file"),
    ):
        if count := states.count(word):
            dump.problems.append(f"{many(count, one, several)} {said}.")
    if (count := states.count("no payload")) and without_values:
        dump.problems.append(f"{many(count, 'tensor was', 'tensors were')} listed without values: {without_values}.")
    elif count:
        dump.problems.append(f"{many(count, 'tensor has', 'tensors have')} no values.")
    unknown = sorted({entry.dtype for entry in dump.entries if element_type(entry.dtype) is None})
    if unknown:
        dump.problems.append(f"Element types {', '.join(unknown[:5])} are unknown and shown as bytes.")


COLUMNS = ("#", "TASK", "KERNEL", "STAGE", "ROLE", "ARG", "TYPE", "SHAPE", "BYTES", "NOTE")
_RIGHT = {"#", "ARG", "BYTES"}
_LISTED = 1000

Json = dict[str, object]


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as `[2, 3]`."""
    return f"[{', '.join(map(str, shape))}]"


def row(dump: Dump, entry: Entry) -> tuple[str, ...]:
    """Return the cells of an entry, in the order of `COLUMNS`."""
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
    """Return a scalar's value as text; the writer says null for NaN."""
    if entry.value is None:
        return "NaN"
    return str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value).replace("$", "")


def title(dump: Dump, entry: Entry) -> str:
    """Return an entry in one line."""
    kernel = dump.kernel(dump.kernels_of(entry.task))
    words = [dump.short_name(entry.task) + (f" ({kernel})" if kernel else ""), entry.stage, entry.role]
    return f"#{entry.number} {' '.join(words)} arg {entry.arg}: {entry.dtype} {shape_text(entry.shape)}"


def table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; columns that are empty everywhere are left out."""
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
    """Return the requested views of a tensor as JSON values; not more than the first 1000 numbers."""
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
        document["numbers"] = [number(value) for value in np.asarray(exact(block)).tolist()]
    return document


def number(value: float) -> float | str:
    """Return a number as JSON; NaN and infinities as words."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)
