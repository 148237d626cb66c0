"""Parse lines of output into nvFuser's statements: a pure state machine, fed one line at a time.

Each beginning of a statement contains one of `triggers.TRIGGERS`, so a reader may skip to the next one while `idle`.

Statements of several lines have a block reader, which is made from the line that begins the block and is fed those
below it. `feed` returns False for the first line after it; `end` returns the statement, also for a truncated block.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final

from livedbg.adapters.nvfuser.dumps.failures import FailureReader, begins
from livedbg.adapters.nvfuser.dumps.ir import parse_tensor
from livedbg.adapters.nvfuser.dumps.segments import BEGIN, END, parse_segments
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    BadOption,
    Considered,
    Definition,
    Domain,
    Domains,
    Failed,
    Kernel,
    Launch,
    Script,
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


class Block(ABC):
    """A statement being read."""

    stops: ClassVar[tuple[str, ...]] = ()
    """Of a block of many lines: what a line begins with that is to be fed; those before it may be taken at once."""

    @abstractmethod
    def feed(self, line: str, number: int | None) -> bool:
        """Process a line; return False if it is not of this statement."""

    @abstractmethod
    def end(self) -> Statement | None:
        """Return the statement, as far as read; None if it turned out to be none."""

    def take(self, lines: list[str]) -> int:
        """Take lines that need no `feed`; return how many were taken."""
        return 0


class SegmentedBlock(Block):
    """From `Segmented_Fusion{` to `} //Segmented_Fusion`."""

    stops: ClassVar[tuple[str, ...]] = (BEGIN, END)

    def __init__(self, line: str, number: int | None) -> None:
        self._line = number
        self._lines = [line]
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        if self._over or len(self._lines) > _SEGMENT_LINES or line.startswith(BEGIN):
            return False
        self._lines.append(line)
        self._over = line.startswith(END) and line.rstrip() == END
        return True

    def take(self, lines: list[str]) -> int:
        taken = 0 if self._over else min(len(lines), max(0, _SEGMENT_LINES - len(self._lines)))
        self._lines += lines[:taken]
        return taken

    def end(self) -> Statement | None:
        fusion = parse_segments(self._lines)
        return Segmented(fusion, self._line) if fusion.groups else None


class ConsideredBlock(Block):
    """From `**Segmenter** Considering fusion:` (or the uncut fusion) to `***Accepted*** as:` or the next."""

    def __init__(self, number: int | None) -> None:
        self._said = Considered(number)
        self._defines: set[int] = set()
        self._foreign = 0
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
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
        self._said.defines = frozenset(self._defines)
        return self._said if self._said.rejected or self._said.accepted else None


def _of_fusion(line: str) -> bool:
    """Return whether a line may be between the head and the schedulers' answers."""
    return not line.strip() or line[0] in " (%}T" or " = " in line


class WholeBlock(Block):
    """`Segment the fusion (Original Fusion Un-modified): `, and the inputs below it."""

    def __init__(self, number: int | None) -> None:
        self._said = Whole(number)
        self._lines = 0

    def feed(self, line: str, number: int | None) -> bool:
        self._lines += 1
        if self._lines == 1 and line.startswith("Inputs:"):
            return True
        if line.startswith("  ") and len(self._said.inputs) < _ITEMS:
            tensor = parse_tensor(line)
            self._said.inputs.append(tensor if tensor is not None else clean_line(line.strip()))
            return True
        return False

    def end(self) -> Statement | None:
        return self._said if self._said.inputs else None


class DomainsBlock(Block):
    """`Segmented_Fusion Dump: -- Re-written complete fusion:{`, of which the transforms are read."""

    stops: ClassVar[tuple[str, ...]] = (BEGIN, _DOMAINS_END)

    def __init__(self, number: int | None) -> None:
        self._said = Domains(number)
        self._tensor: int | None = None
        self._parts: dict[str, str] = {}
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        if self._over or line.startswith(BEGIN):
            return False
        self.take([line])
        self._over = line.startswith(_DOMAINS_END)
        return True

    def take(self, lines: list[str]) -> int:
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
        self._keep()
        return self._said if self._said.tensors else None


class ArgumentsBlock(Block):
    """`Arguments for fusion 0 group 2:` and the lists below it."""

    def __init__(self, said: Arguments) -> None:
        self._said = said
        self._part: list[str] | None = None

    def feed(self, line: str, number: int | None) -> bool:
        word = line.strip()
        if word in {"Inputs:", "Outputs:", "Intermediate global buffers:"}:
            self._part = {"Inputs:": self._said.inputs, "Outputs:": self._said.outputs}.get(word, [])
            return True
        if self._part is None or not line.startswith("  ") or len(self._part) > _ITEMS:
            return False
        self._part.append(clean_line(word, _LONG))
        return True

    def end(self) -> Statement | None:
        return self._said


class FailedBlock(Block):
    """An error text (livedbg.adapters.nvfuser.dumps.failures)."""

    def __init__(self, line: str, number: int | None, before: list[str]) -> None:
        self._line = number
        self._reader = FailureReader(line, number, before)

    def feed(self, line: str, number: int | None) -> bool:
        return self._reader.feed(line, number)

    def end(self) -> Statement | None:
        failure = self._reader.end()
        return Failed(failure, self._line) if failure is not None else None


_SCRIPT_LINES: Final = 200_000
_IMPORT: Final = lazy_re(r"^from (nvfuser(?:_direct)?) import ")
_CODE: Final = lazy_re(r"^(?:#|import |from |def |with |inputs = \[|\]|fd\.|    |\t|$)")
_FOLLOWS: Final = lazy_re(r"^(?:$|with FusionDefinition\(|inputs = \[|\]|fd\.)")
"""What of a script comes below a definition that has no imports above it."""
_WHOLE: Final = lazy_re(r"^(?:with FusionDefinition\(|inputs = \[|fd\.execute\()", re.MULTILINE)
_TORCH: Final = lazy_re(r"\btorch\.")
_IMPORTS_TORCH: Final = lazy_re(r"^import torch\b", re.MULTILINE)
_LEGACY: Final = lazy_re(r"^def nvfuser_fusion_id\d")
_END: Final = lazy_re(r"^fd\.execute\(inputs\)")
_VERSION: Final = lazy_re(r"^# (torch|cuda|nvfuser) version: (.*)$")
_DEVICE: Final = lazy_re(r"^#\s+\d{1,18}: (.*)$")


class ScriptBlock(Block):
    """A reproduction script with or without its imports, or a definition alone, maybe of a segment."""

    def __init__(self, line: str, number: int | None, group: int | None) -> None:
        self._line = number
        self._group = group
        self._lines = [line.rstrip("\r")]
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        if self._over or len(self._lines) > _SCRIPT_LINES or line.startswith("```") or not _CODE.match(line):
            return False
        alone = self._lines[0].startswith("def ")
        if alone and not (line[:1].isspace() or _FOLLOWS.match(line)):
            return False
        self._lines.append(line.rstrip("\r"))
        self._over = bool(_END.match(line))
        return True

    def end(self) -> Statement | None:
        text = "\n".join(self._lines).strip("\n") + "\n"
        generation = next((match[1] for line in self._lines if (match := _IMPORT.match(line))), "")
        if not generation and text.startswith("def ") and _WHOLE.search(text) is not None:
            generation = "nvfuser" if _LEGACY.match(text) is not None else "nvfuser_direct"
            text = f"import torch\nfrom {generation} import FusionDefinition, DataType\n\n{text}"
        if not generation:
            has = text.startswith("def ")
            return Definition(text, self._group, self._line) if has else None
        if _TORCH.search(text) is not None and _IMPORTS_TORCH.search(text) is None:
            text = f"import torch\n{text}"  # that line has nothing by which it is found in a log
        versions = {match[1]: clean_line(match[2]) for line in self._lines if (match := _VERSION.match(line))}
        devices = tuple(clean_line(match[1]) for line in self._lines if (match := _DEVICE.match(line)))
        return Script(text, generation, versions, devices, self._line, self._over)


LINES_BEFORE: Final = 12
"""Lines above a trigger that an error's message may begin at."""

_KERNEL: Final = lazy_re(r"\b(nvfuser_(\w+?)_f(\d{1,18})_c(\d{1,18})_r(\d{1,18})_g(\d{1,18}))\b")
_FILE: Final = lazy_re(r"(__tmp_(nvfuser_(\w{1,1000}?)_f(\d{1,18})_c(\d{1,18})_r(\d{1,18})_g(\d{1,18}))\.\w{1,1000})")
_ARGUMENTS: Final = lazy_re(r"Arguments for fusion ?(\d{1,18})(?: group (\d{1,18}))?:")
_LAUNCH: Final = lazy_re(r"(Block|Grid)Dim\.([xyz]) = (-?\d{1,18})|Smem Size = (\d{1,18})")
_OPTION: Final = lazy_re(r"Parsing (\w+) failed\. Invalid option: '?([^'\n]*)'?")
_DEFINITION: Final = lazy_re(r"Python definition for segmented group (\d{1,18}):")
_SCRIPT: Final = lazy_re(
    r"^(?:# CUDA devices:|# torch version: |import torch$|from nvfuser(?:_direct)? import |def nvfuser_)"
)


def kernel_in(line: str, number: int | None) -> list[Kernel]:
    """Return the kernels whose code a line announces (concurrent compiler threads may garble the line)."""
    if "PRINTING: " in line:
        found = [(match, match[1]) for match in _FILE.finditer(line)]
        return [Kernel(m[2], m[3], int(m[4]), int(m[5]), int(m[6]), int(m[7]), number, file) for m, file in found]
    if "Codegen output for kernel" in line:
        return [Kernel(m[1], m[2], int(m[3]), int(m[4]), int(m[5]), int(m[6]), number) for m in _KERNEL.finditer(line)]
    return []


class Scanner:
    """Reads the output of one process (of one rank)."""

    def __init__(self) -> None:
        self._block: Block | None = None
        self._group: int | None = None
        self._before: deque[str] = deque(maxlen=LINES_BEFORE)

    @property
    def idle(self) -> bool:
        """Return whether no statement is being read: lines without a trigger may be skipped."""
        return self._block is None and self._group is None

    @property
    def long(self) -> Block | None:
        """Return the current statement if it takes most lines unparsed."""
        return self._block if self._block is not None and self._block.stops else None

    def feed(self, line: str, number: int | None = None) -> Sequence[Statement]:
        """Process a line (without its end or a launcher's prefix); return the completed statements."""
        found: list[Statement] = []
        if self._block is not None:
            if self._block.feed(line, number):
                return ()
            found += self.finish()
        found += self._begin(line, number)
        self._before.append(line)
        return found

    def feed_lines(self, lines: list[str], number: int) -> tuple[int, list[Statement]]:
        """Process lines until no statement is being read; return how many were taken, and the completed statements."""
        found: list[Statement] = []
        for count, line in enumerate(lines):
            if self._block is None or not self._block.feed(line, number + count):
                found += self.finish()
                found += self._begin(line, number + count)
                self._before.append(line)
                if self.idle:
                    return count + 1, found
        return len(lines), found

    def finish(self) -> list[Statement]:
        """End the current statement, as no line follows or lines were skipped."""
        block, self._block = self._block, None
        statement = block.end() if block is not None else None
        return [statement] if statement is not None else []

    def above(self, lines: list[str]) -> None:
        """Set the lines above the next one, after lines were skipped."""
        self._before.clear()
        self._before.extend(lines)

    def _begin(self, line: str, number: int | None) -> list[Statement]:
        if self._group is not None and not line.strip():
            return []  # an empty line separates the head from the definition
        group, self._group = self._group, None
        kernels = kernel_in(line, number)
        if kernels:
            return list(kernels)
        option = _OPTION.search(line)
        if option is not None:
            self._block = FailedBlock(line, number, [])
            return [BadOption(clean_line(option[1]), clean_line(option[2].rstrip("'")), number)]
        if "Launch Parameters:" in line:
            return _launch(line, number)
        defined = _DEFINITION.search(line)
        if defined is not None:
            self._group = int(defined[1])
            return []
        self._block = self._of(line, number, group)
        return []

    def _of(self, line: str, number: int | None, group: int | None) -> Block | None:
        if line.startswith(BEGIN):
            return SegmentedBlock(line, number)
        if "Considering fusion:" in line or "***Runtime***: Try to schedule fusion un-segmented" in line:
            return ConsideredBlock(number)
        if "Re-written complete fusion:{" in line:
            return DomainsBlock(number)
        if line.startswith("Segment the fusion ("):
            return WholeBlock(number)
        arguments = _ARGUMENTS.search(line)
        if arguments is not None:
            which = int(arguments[2]) if arguments[2] else None
            return ArgumentsBlock(Arguments(int(arguments[1]), which, number))
        if _SCRIPT.match(line):
            return ScriptBlock(line, number, group)
        if begins(line):
            return FailedBlock(line, number, list(self._before))
        return None


def _launch(line: str, number: int | None) -> list[Statement]:
    sizes: dict[str, int] = {}
    for match in _LAUNCH.finditer(line):
        sizes[f"{match[1]}{match[2]}" if match[1] else "smem"] = int(match[3] or match[4])
    block = tuple(max(1, sizes.get(f"Block{axis}", 1)) for axis in "xyz")
    grid = tuple(max(1, sizes.get(f"Grid{axis}", 1)) for axis in "xyz")
    return [Launch(block, grid, sizes.get("smem", 0), number)]
