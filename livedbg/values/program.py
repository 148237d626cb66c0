"""Compares a dump with golden inputs and outputs of the whole program.

A dump names tasks and arguments, not the program's parameters. So a golden tensor is matched with a buffer, in this
order: by name (an output with the name of a matched input), by values (one buffer of its type and size holds them), by
type and size (one such buffer is left). How it was matched is part of the result; the rest is not guessed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from livedbg.graphs.declared import LostOrder
from livedbg.model.errors import LivedbgError
from livedbg.model.reach import reachable
from livedbg.text.wording import many
from livedbg.values.buffers import ELEMENTS, Buffer, Wiring, buffers_of
from livedbg.values.compare import Difference, Tolerance, scalar_value
from livedbg.values.dump import Dump
from livedbg.values.readers import GoldenFile, TensorFormat
from livedbg.values.tensor import Held
from livedbg.values.tensor_files import load

_Kind: TypeAlias = tuple[bool, str, int]


@dataclass(slots=True)
class GoldenMatch:
    """A golden tensor and the buffer that it was matched with.

    Attributes:
        by: how it was matched: `name`, `values`, `type and size`; "" if it was not.
        writers: tasks that wrote what differs; the culprit is one of them or precedes them.
        later: number of later tasks that were given what differs, and left it as it was.
        behind: number of further tasks before any of the writers, which may have spoilt their inputs.
        missing: dependencies that the graph lacks of the writers, or of tasks before them.
        certain: the one writer's inputs are the golden ones, so that it is the culprit.
    """

    file: GoldenFile
    by: str = ""
    buffer: Buffer | None = None
    difference: Difference = field(default_factory=Difference)
    writers: list[int] = field(default_factory=list)
    later: int = 0
    behind: int = 0
    missing: list[LostOrder] = field(default_factory=list)
    certain: bool = False
    note: str = ""

    @property
    def differs(self) -> bool:
        """True if the program's values certainly differ."""
        return self.difference.differs


@dataclass(slots=True)
class ProgramComparison:
    """All golden tensors; `ordered`: there is a task graph."""

    matches: list[GoldenMatch] = field(default_factory=list)
    ordered: bool = True

    @property
    def differs(self) -> bool:
        return any(match.differs for match in self.matches)


def compare_program(
    dump: Dump, wiring: Wiring, files: Sequence[GoldenFile], tolerance: Tolerance, formats: Sequence[TensorFormat]
) -> ProgramComparison:
    """Match golden tensors with what a program's tasks dumped, and compare them."""
    matcher = _Matcher(dump, buffers_of(dump, wiring), tolerance, formats)
    found = ProgramComparison([GoldenMatch(file) for file in files], wiring.graph is not None)
    for match in found.matches:
        matcher.match(match)
    matcher.match_what_is_left([match for match in found.matches if not match.by and not match.note])
    for match in found.matches:
        _judge(match, found, wiring)
    return found


class _Matcher:
    """Matches golden tensors with the buffers of a dump."""

    def __init__(
        self, dump: Dump, buffers: Sequence[Buffer], tolerance: Tolerance, formats: Sequence[TensorFormat]
    ) -> None:
        self._dump = dump
        self._buffers = buffers
        self._tolerance = tolerance
        self._formats = formats
        self._given: dict[str, GoldenMatch] = {}
        self._kinds: dict[int, _Kind] = {}
        self._taken: set[int] = set()

    def match(self, match: GoldenMatch) -> None:
        """Match a tensor by its name or its values."""
        file = match.file
        try:
            golden = load(file.path, self._formats)
        except LivedbgError as error:
            match.note = str(error).replace("\n", "; ")
            return
        self._kinds[id(match)] = (file.output, golden.element.name, golden.total)
        if golden.total > ELEMENTS:
            match.note = f"it has more than {ELEMENTS} elements"
        elif file.output:
            if not self._same_name(match, golden):
                alike = [buffer for buffer in self._alike(golden) if buffer.writers]
                finals = ((buffer, buffer.final(self._dump, golden, self._tolerance)) for buffer in alike)
                self._by_values(match, [(buffer, left.difference) for buffer, left in finals])
        else:
            if golden.shape == ():
                self._match_scalar(match, golden)
            alike = [buffer for buffer in self._alike(golden) if buffer.read]
            exact = Tolerance(0, 0)
            self._by_values(match, [(buffer, buffer.initial(self._dump, golden, exact)) for buffer in alike])
            self._given[file.name] = match
        self._taken.add(id(match.buffer))

    def match_what_is_left(self, left: Sequence[GoldenMatch]) -> None:
        """Match what no buffer holds, inputs first, so that outputs of the same name follow."""
        alike = Counter(self._kinds[id(match)] for match in left)
        for match in left:
            golden = load(match.file.path, self._formats)  # again: not all of them are kept
            if match.file.output and self._same_name(match, golden):
                continue
            if alike[self._kinds[id(match)]] > 1:
                match.note = "other golden tensors of its type and size are not matched either"
                continue
            self._match_rest(match, golden)
            self._taken.add(id(match.buffer))

    def _alike(self, golden: Held) -> list[Buffer]:
        kind = golden.total, golden.element.name
        return [buffer for buffer in self._buffers if (buffer.count, buffer.element.name) == kind]

    def _by_values(self, match: GoldenMatch, compared: Sequence[tuple[Buffer, Difference]]) -> None:
        """Match with the buffer that holds the values, if one does."""
        holding = [(buffer, found) for buffer, found in compared if found.compared and not found.outside]
        if holding:
            match.by, match.difference = "values", holding[0][1]
            match.buffer = holding[0][0] if len(holding) == 1 else None
            if len(holding) > 1:
                match.note = f"{len(holding)} buffers hold these values"

    def _match_scalar(self, match: GoldenMatch, golden: Held) -> None:
        value = float(golden.block(0, 1).astype("f8")[0])
        numbers = (scalar_value(entry) for entry in self._dump.entries if entry.scalar)
        if any(number is not None and math.isclose(value, number, rel_tol=1e-5) for number in numbers):
            match.by, match.difference = "values", Difference(compared=1, total=1)
        else:
            match.note = "no task was given this scalar"

    def _same_name(self, match: GoldenMatch, golden: Held) -> bool:
        """Match an output that has an initial value with the buffer of its input."""
        same = self._given.get(match.file.name)
        if same is None or same.buffer is None:
            return False
        match.by, match.buffer = "name", same.buffer
        match.difference, match.writers, match.later = same.buffer.final(self._dump, golden, self._tolerance)
        if not match.difference.compared:
            match.note = "no dumped task wrote it"
        return True

    def _match_rest(self, match: GoldenMatch, golden: Held) -> None:
        """Match with the only buffer left of its type and size."""
        output = match.file.output
        alike = [b for b in self._alike(golden) if id(b) not in self._taken and (b.writers if output else b.read)]
        kind = f"{golden.element.name} and {many(golden.total, 'element')}"
        if not alike:
            how = "left by a task" if output else "found before it was written"
            match.note = f"no further tensor of {kind} was {how}"
        elif len(alike) > 1:
            match.note = f"none of the {len(alike)} tensors of {kind} holds its values"
            if output:  # it should be there, whichever it is
                match.writers = list(dict.fromkeys(task for buffer in alike for task in buffer.writers))
                match.difference = Difference(total=golden.total, reason="no tensor holds these values")
        else:
            match.by, match.buffer = "type and size", alike[0]
            if output:
                final = alike[0].final(self._dump, golden, self._tolerance)
                match.difference, match.writers, match.later = final
            else:
                match.difference = alike[0].initial(self._dump, golden, self._tolerance)


def _judge(match: GoldenMatch, found: ProgramComparison, wiring: Wiring) -> None:
    """Set `certain` if the differing values have a single writer, whose inputs are all golden."""
    if not match.file.output or not match.differs or wiring.graph is None:
        return
    sound = {
        id(other.buffer) for other in found.matches if not other.file.output and other.buffer and not other.differs
    }
    before = reachable(match.writers, wiring.before) - set(match.writers)
    match.behind = len(before)
    match.missing = wiring.missing_into({*match.writers, *before})
    if len(match.writers) == 1 and not match.behind and not match.missing and not match.later:
        writer = match.writers[0]
        buffers = {
            entry.arg: id(other.buffer)
            for other in found.matches
            if other.buffer is not None and other.buffer.writers[:1] in ([], [writer])
            for entry in other.buffer.touched
            if entry.task == writer and entry.before
        }
        task = wiring.graph.tasks.get(writer)
        reads = {access.idx for access in task.args if access.type in {"INPUT", "INOUT"}} if task is not None else set()
        match.certain = bool(reads) and all(buffers.get(arg) in sound for arg in reads)
