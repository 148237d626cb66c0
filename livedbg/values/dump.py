"""A dump of tasks' arguments, opened: what is listed, and the values behind it.

    with open_dump(path) as dump:
        for entry in dump.entries:
            tensor = dump.tensor(entry)   # None for scalars and lost payload
            print(dump.task_name(entry.task), summary(tensor))

Nothing of the payload is read before `Tensor.block` is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from livedbg.adapters.ascend.dumps.depsfile import parse_graph
from livedbg.model.errors import SourceError, UsageError
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.dtypes import ElementType, element_type, raw_bytes
from livedbg.values.finding import MANIFESTS, beside, kernel_names
from livedbg.values.manifest import Entry, Manifest, read_manifest
from livedbg.values.tensor import Payload, Stored

__all__ = ["Dump", "Selection", "open_dump", "parse_task", "task_name"]

_TASK: Final = re.compile(r"r(\d+)t(\d+)\Z")
_DEPS_BYTES: Final = 1 << 28
_DRAINED: Final = (
    "There is no manifest beside {name} ({size}): the runtime writes it only when a run has drained or its "
    "time-out has ended it, so this run hangs, was killed, or still goes on. Of the bytes nothing more is known."
)


def task_name(task: int) -> str:
    """`r1t2`: task 2 of ring 1."""
    return f"r{task >> 32}t{task & 0xFFFFFFFF}"


def parse_task(word: str) -> int:
    """A task as `r1t2`, as a number, or in hex as the manifest writes it.

    Raises:
        UsageError: none of these.
    """
    match = _TASK.match(word)
    try:
        return (int(match[1]) << 32) | int(match[2]) if match else int(word, 0)
    except ValueError:
        raise UsageError(f"{word} names no task.", "r1t2, 4294967298 or 0x100000002", "task") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries are meant; what is empty selects everything."""

    tasks: frozenset[int] = frozenset()
    stage: str = ""
    roles: frozenset[str] = frozenset()
    args: frozenset[int] = frozenset()
    kernels: frozenset[str] = frozenset()

    def of(self, dump: Dump) -> Iterator[Entry]:
        """The entries of a dump that are meant."""
        for entry in dump.entries:
            if (
                (not self.tasks or entry.task in self.tasks)
                and (not self.stage or entry.stage.startswith(self.stage))
                and (not self.roles or entry.role in self.roles)
                and (not self.args or entry.arg in self.args)
                and (not self.kernels or self.kernels & dump.kernel_words(dump.kernels_of(entry.task)))
            ):
                yield entry


@dataclass(slots=True)
class Dump(AbstractContextManager["Dump"]):
    """A dump.

    Attributes:
        path: the manifest, or the payload where there is no manifest.
        names: kernels by func id.
        problems: sentences on what is missing.
    """

    path: Path
    manifest: Manifest
    payload: Payload | None = None
    names: dict[int, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _kernels: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _elements: dict[str, ElementType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.entries:
            if entry.kernels:
                self._kernels.setdefault(entry.task, entry.kernels)
        if self.entries and not self._kernels:  # June 2026, and host_build_graph, which writes -1
            self._kernels = _declared_kernels(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close the payload."""
        if self.payload is not None:
            self.payload.close()

    @property
    def entries(self) -> list[Entry]:
        """All entries, sorted by task, stage and argument."""
        return self.manifest.entries

    @property
    def orphan(self) -> bool:
        """Whether it is a payload without a manifest."""
        return self.path.name not in MANIFESTS and self.path.suffix != ".json"

    def kernel(self, kernels: tuple[int, ...]) -> str:
        """Kernels in words: `MUL`, `MATMUL + ADD`, `func 7`; "" where unknown."""
        return " + ".join(self.names.get(kernel, f"func {kernel}") for kernel in kernels)

    def kernel_words(self, kernels: tuple[int, ...]) -> frozenset[str]:
        """The words by which kernels can be asked for: names and func ids."""
        return frozenset(str(kernel) for kernel in kernels) | {
            self.names[kernel] for kernel in kernels if kernel in self.names
        }

    def task_name(self, task: int) -> str:
        """`r1t2 (MUL)`."""
        kernel = self.kernel(self.kernels_of(task))
        return f"{task_name(task)} ({kernel})" if kernel else task_name(task)

    def kernels_of(self, task: int) -> tuple[int, ...]:
        """Func ids of a task's kernels; empty where unknown."""
        return self._kernels.get(task, ())

    def state(self, entry: Entry) -> str:
        """What is wrong with an entry's values: "", `overwritten`, `truncated`, `short`, `no payload`, `unread`."""
        return self.look(entry)[0]

    def tensor(self, entry: Entry) -> Stored | None:
        """The values of an entry, as far as they are there; None for scalars and lost payload."""
        return self.look(entry)[1]

    def look(self, entry: Entry) -> tuple[str, Stored | None]:
        """Both: what is wrong with the values, and the values."""
        if entry.scalar:
            return "", None
        if entry.overwritten:
            return "overwritten", None
        if not self.manifest.decodable:
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
        """The type of an entry's elements."""
        known = self._elements.get(entry.dtype)
        if known is None:
            known = self._elements[entry.dtype] = element_type(entry.dtype) or raw_bytes(entry.dtype)
        return known


def _declared_kernels(path: Path) -> dict[int, tuple[int, ...]]:
    """Func ids of tasks from the deps.json beside a dump; empty where it does not tell."""
    deps = beside(path, "deps.json")
    try:
        if deps is None or deps.stat().st_size > _DEPS_BYTES:
            return {}
        tasks = parse_graph(deps.read_bytes()).tasks.values()
    except (OSError, ValueError):  # names are an extra
        return {}
    return {task.task_id: tuple(kernel for kernel in task.kernel_ids if kernel >= 0) for task in tasks}


def open_dump(path: Path) -> Dump:
    """Open one dump: a manifest, or a payload without one (see `livedbg.values.finding.find_dumps`).

    Raises:
        SourceError: it can't be read, or is no dump.
    """
    if path.suffix == ".bin":
        payload = Payload(path)
        dump = Dump(path, Manifest(layout="payload only"), payload, kernel_names(path))
        dump.problems.append(_DRAINED.format(name=clean_line(path.name), size=many(payload.size, "byte")))
        return dump
    manifest = read_manifest(path)
    dump = Dump(path, manifest, names=kernel_names(path), problems=list(manifest.problems))
    if manifest.bin_file is not None:
        try:
            dump.payload = Payload(path.parent / manifest.bin_file)
        except SourceError as error:
            dump.problems.append(error.message)
    _say_losses(dump)
    return dump


def _say_losses(dump: Dump) -> None:
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
    if (count := states.count("no payload")) and dump.manifest.level in {1, 3}:
        dump.problems.append(
            f"{many(count, 'tensor was', 'tensors were')} listed without values: dump level {dump.manifest.level} "
            "keeps those that are marked with dump(...)."
        )
    elif count:
        dump.problems.append(f"{many(count, 'tensor has', 'tensors have')} no values.")
    unknown = sorted({entry.dtype for entry in dump.entries if element_type(entry.dtype) is None})
    if unknown:
        dump.problems.append(f"Elements of type {', '.join(unknown[:5])} are not known and shown as bytes.")
