"""From lines of output to nvFuser's statements: a pure state machine, fed one line at a time.

What no statement begins with is passed over: of the byte strings `triggers.TRIGGERS` each beginning holds one, so that
a reader may skip to the next while `idle`.

Reads reproduction scripts of nvFuser from output, with and without the imports above them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from livedbg.adapters.nvfuser.dumps.blocks import (
    ArgumentsBlock,
    Block,
    ConsideredBlock,
    DomainsBlock,
    FailedBlock,
    LongBlock,
    SegmentedBlock,
    WholeBlock,
)
from livedbg.adapters.nvfuser.dumps.failures import begins
from livedbg.adapters.nvfuser.dumps.segments import BEGIN
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    BadOption,
    Definition,
    Kernel,
    Launch,
    Script,
    Statement,
)
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

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


class ScriptBlock:
    """A reproduction script, or a definition alone.

    Args:
        number: line of its beginning.
        group: the segment that it defines, where the line above said so.
    """

    def __init__(self, number: int | None, group: int | None = None) -> None:
        self._line = number
        self._group = group
        self._lines: list[str] = []
        self._over = False

    def feed(self, line: str, number: int | None) -> bool:
        """See Block."""
        if self._over or len(self._lines) > _SCRIPT_LINES or line.startswith("```") or not _CODE.match(line):
            return False
        alone = self._lines and self._lines[0].startswith("def ")
        if alone and not (line[:1].isspace() or _FOLLOWS.match(line)):
            return False
        self._lines.append(line.rstrip("\r"))
        self._over = bool(_END.match(line))
        return True

    def end(self) -> Statement | None:
        """See Block."""
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
    """The kernels whose code a line announces (threads that compile at once may tear the line)."""
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
        """No statement is being read: lines without a trigger may be left out."""
        return self._block is None and self._group is None

    @property
    def long(self) -> LongBlock | None:
        """The statement that is being read, where it takes most lines as they are."""
        return self._block if isinstance(self._block, SegmentedBlock | DomainsBlock) else None

    def feed(self, line: str, number: int | None = None) -> Sequence[Statement]:
        """Take a line.

        Args:
            line: without its end and without a launcher's prefix.
            number: its number.

        Returns:
            The statements that are whole now.
        """
        found: list[Statement] = []
        if self._block is not None:
            if self._block.feed(line, number):
                return ()
            found += self.finish()
        found += self._begin(line, number)
        self._before.append(line)
        return found

    def feed_lines(self, lines: list[str], number: int) -> tuple[int, list[Statement]]:
        """Take lines until no statement is being read any more.

        Args:
            lines: as for `feed`.
            number: of the first.

        Returns:
            How many were taken, and the statements that are whole.
        """
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
        """No line comes any more, or lines were left out: the statement that was being read, as far as it goes."""
        block, self._block = self._block, None
        statement = block.end() if block is not None else None
        return [statement] if statement is not None else []

    def above(self, lines: list[str]) -> None:
        """The lines above the next one, where lines were left out."""
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
            self._block = FailedBlock(number, [])
            self._block.feed(line, number)
            return [BadOption(clean_line(option[1]), clean_line(option[2].rstrip("'")), number)]
        if "Launch Parameters:" in line:
            return _launch(line, number)
        defined = _DEFINITION.search(line)
        if defined is not None:
            self._group = int(defined[1])
            return []
        self._block = self._of(line, number, group)
        if self._block is not None:
            self._block.feed(line, number)
        return []

    def _of(self, line: str, number: int | None, group: int | None) -> Block | None:
        if line.startswith(BEGIN):
            return SegmentedBlock(number)
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
            return ScriptBlock(number, group)
        if begins(line):
            return FailedBlock(number, list(self._before))
        return None


def _launch(line: str, number: int | None) -> list[Statement]:
    sizes: dict[str, int] = {}
    for match in _LAUNCH.finditer(line):
        sizes[f"{match[1]}{match[2]}" if match[1] else "smem"] = int(match[3] or match[4])
    block = tuple(max(1, sizes.get(f"Block{axis}", 1)) for axis in "xyz")
    grid = tuple(max(1, sizes.get(f"Grid{axis}", 1)) for axis in "xyz")
    return [Launch(block, grid, sizes.get("smem", 0), number)]
