"""Statements of several lines: each reader takes lines until they are no more its own.

A reader is fed the line that its block begins with first. `feed` gives False for the first line that is not its; `end`
gives the statement, also of a block that was cut.
"""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from livedbg.adapters.nvfuser.dumps.failures import FailureReader
from livedbg.adapters.nvfuser.dumps.ir import parse_tensor
from livedbg.adapters.nvfuser.dumps.segments import BEGIN, END, parse_segments
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    Considered,
    Domain,
    Domains,
    Failed,
    Segmented,
    Statement,
    Whole,
)
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_SEGMENT_LINES: Final = 400_000
_ITEMS: Final = 1_000
_FOREIGN: Final = 20
_LONG: Final = 4_096

_REJECTED: Final = lazy_re(r"Scheduler _(\w{1,100}?)_ \*\*\*rejected\*\*\* because : (.{0,4000})$")
_ACCEPTED: Final = lazy_re(r"\*\*\*Accepted\*\*\* as: (\w+)")
_OUTPUT: Final = lazy_re(r"^T(\d{1,18})_")
_TENSOR: Final = lazy_re(r"^T(\d{1,18})_[^=]*$")
_DOMAIN: Final = lazy_re(r"^  (root|logical|allocation|contiguity)(?: domain)?: (.*)$")
_DOMAINS_END: Final = "} // {Re-written complete fusion}"


class Block(Protocol):
    """A statement that is being read."""

    def feed(self, line: str, number: int | None) -> bool:
        """Take a line; False when it is not of this statement."""
        ...

    def end(self) -> Statement | None:
        """The statement, as far as it was there; None where it turned out to be none."""
        ...


class LongBlock(Block, Protocol):
    """A block of many lines, most of which it takes as they are."""

    stops: ClassVar[tuple[str, ...]]
    """What a line begins with that is to be fed; those before it may be taken at once."""

    def take(self, lines: list[str]) -> int:
        """Take lines of which none is to be fed; gives how many were taken."""
        ...


class SegmentedBlock:
    """From `Segmented_Fusion{` to `} //Segmented_Fusion`."""

    stops: ClassVar[tuple[str, ...]] = (BEGIN, END)

    def __init__(self, number: int | None) -> None:
        self._line = number
        self._lines: list[str] = []
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._over or len(self._lines) > _SEGMENT_LINES or (self._lines and line.startswith(BEGIN)):
            return False
        self._lines.append(line)
        self._over = line.startswith(END) and line.rstrip() == END
        return True

    def take(self, lines: list[str]) -> int:
        """See LongBlock."""
        taken = 0 if self._over else min(len(lines), max(0, _SEGMENT_LINES - len(self._lines)))
        self._lines += lines[:taken]
        return taken

    def end(self) -> Statement | None:
        """See Block."""
        fusion = parse_segments(self._lines)
        return Segmented(fusion, self._line) if fusion.groups else None


class ConsideredBlock:
    """From `**Segmenter** Considering fusion:` (or the uncut fusion) to `***Accepted*** as:` or the next."""

    def __init__(self, number: int | None) -> None:
        self._said = Considered(number)
        self._defines: set[int] = set()
        self._foreign = 0
        self._first = True
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._first:
            self._first = False
            return True
        if line.startswith(" ") and not (self._over or "***" in line or "Considering fusion:" in line):
            return True  # most lines
        if self._over or "Considering fusion:" in line or "***Runtime***" in line or line.startswith("Segment"):
            return False
        marked = "***" in line
        rejected = _REJECTED.search(line) if marked else None
        accepted = _ACCEPTED.search(line) if marked else None
        if rejected is not None:
            if len(self._said.rejected) < _ITEMS:
                self._said.rejected.append((rejected[1], clean_line(rejected[2], _LONG)))
        elif accepted is not None:
            self._said.accepted = accepted[1]
            self._over = True
        elif (output := _OUTPUT.match(line)) is not None:
            if not self._said.rejected and len(self._defines) < _ITEMS:
                self._defines.add(int(output[1]))
        elif not _of_fusion(line):
            self._foreign += 1  # what another thread prints meanwhile
            return self._foreign <= _FOREIGN
        return True

    def end(self) -> Statement | None:
        """See Block."""
        self._said.defines = frozenset(self._defines)
        return self._said if self._said.rejected or self._said.accepted else None


def _of_fusion(line: str) -> bool:
    """Whether a line may come between the head and the schedulers' answers."""
    return not line.strip() or line[0] in " (%}T" or " = " in line


class WholeBlock:
    """`Segment the fusion (Original Fusion Un-modified): `, and the inputs below it."""

    def __init__(self, number: int | None) -> None:
        self._said = Whole(number)
        self._lines = 0

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        self._lines += 1
        if self._lines <= 2 and (self._lines == 1 or line.startswith("Inputs:")):
            return True
        if line.startswith("  ") and len(self._said.inputs) < _ITEMS:
            tensor = parse_tensor(line)
            self._said.inputs.append(tensor if tensor is not None else clean_line(line.strip()))
            return True
        return False

    def end(self) -> Statement | None:
        """See Block."""
        return self._said if self._said.inputs else None


class DomainsBlock:
    """`Segmented_Fusion Dump: -- Re-written complete fusion:{`, of which the transforms are read."""

    stops: ClassVar[tuple[str, ...]] = (BEGIN, _DOMAINS_END)

    def __init__(self, number: int | None) -> None:
        self._said = Domains(number)
        self._tensor: int | None = None
        self._parts: dict[str, str] = {}
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._over or line.startswith(BEGIN):
            return False
        self.take([line])
        self._over = line.startswith(_DOMAINS_END)
        return True

    def take(self, lines: list[str]) -> int:
        """See LongBlock."""
        if self._over:
            return 0
        for line in lines:
            if line.startswith("  "):
                if (part := _DOMAIN.match(line)) is not None:
                    self._parts.setdefault(part[1], part[2])
            elif line.startswith("T") and (head := _TENSOR.match(line)) is not None:
                self._keep()
                self._tensor = int(head[1])
        return len(lines)

    def _keep(self) -> None:
        if self._tensor is not None and "logical" in self._parts and len(self._said.tensors) < _SEGMENT_LINES:
            part = self._parts
            said = part["logical"], part.get("root", ""), part.get("allocation", ""), part.get("contiguity", "")
            self._said.tensors[self._tensor] = Domain(said)
        self._tensor, self._parts = None, {}

    def end(self) -> Statement | None:
        """See Block."""
        self._keep()
        return self._said if self._said.tensors else None


class ArgumentsBlock:
    """`Arguments for fusion 0 group 2:` and the lists below it."""

    def __init__(self, said: Arguments) -> None:
        self._said = said
        self._part: list[str] | None = None
        self._first = True

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._first:
            self._first = False
            return True
        word = line.strip()
        if word in {"Inputs:", "Outputs:", "Intermediate global buffers:"}:
            self._part = {"Inputs:": self._said.inputs, "Outputs:": self._said.outputs}.get(word, [])
            return True
        if self._part is None or not line.startswith("  ") or len(self._part) > _ITEMS:
            return False
        self._part.append(clean_line(word, _LONG))
        return True

    def end(self) -> Statement | None:
        """See Block."""
        return self._said


class FailedBlock:
    """An error text (livedbg.adapters.nvfuser.dumps.failures)."""

    def __init__(self, number: int | None, before: list[str]) -> None:
        self._line = number
        self._reader: FailureReader | None = None
        self._before = before

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._reader is None:
            self._reader = FailureReader(line, number, self._before)
            return True
        return self._reader.feed(line, number)

    def end(self) -> Statement | None:
        """See Block."""
        failure = self._reader.end() if self._reader is not None else None
        return Failed(failure, self._line) if failure is not None else None
