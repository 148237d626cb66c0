"""Where the lines of a big file begin, in memory that hardly grows with it.

The index keeps one number for each block of the file: how many lines end before the block's end.
To find a line, the block is searched by bisection and scanned again. Counting is one pass of
`bytes.count`, about the speed of `wc -l`; the memory is 8 bytes for each 64 KiB of log.

Invariants:
    index.X1. For every indexed line n: `line_at(offset_of(n)) == n`, and `offset_of` agrees with
        splitting the whole file at newlines.
    index.X2. The index of a file that grew is the index of the longer file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

BLOCK = 64 * 1024
"""Bytes of the file for one entry of the index."""

_STEP = 4 * BLOCK


class LineIndex:
    """Line ends by block. Not thread-safe: the owner locks.

    Args:
        read: reads (offset, count) of the file.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._ends = array("Q")  # line ends before the end of each whole block
        self._scanned = 0
        self._newlines = 0
        self._ends_with_newline = True

    @property
    def scanned(self) -> int:
        """How many bytes from the beginning are indexed."""
        return self._scanned

    @property
    def lines(self) -> int:
        """Lines in what is indexed; a last line without an end counts."""
        return self._newlines + (not self._ends_with_newline)

    def extend(self, size: int, budget: int = 16 * BLOCK) -> bool:
        """Index up to `budget` more bytes of the first `size`.

        Returns:
            Whether there is more to do.
        """
        while budget > 0 and self._scanned < size:
            data = self._read(self._scanned, min(_STEP - self._scanned % BLOCK, size - self._scanned))
            if not data:
                return False
            self._count(data)
            budget -= len(data)
        return self._scanned < size

    def _count(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            end = min(len(data), position + BLOCK - self._scanned % BLOCK)
            self._newlines += data.count(b"\n", position, end)
            self._scanned += end - position
            position = end
            if self._scanned % BLOCK == 0:
                self._ends.append(self._newlines)
        self._ends_with_newline = data.endswith(b"\n")

    def offset_of(self, line: int) -> int | None:
        """Where line `line` (from 0) begins; None when it is not indexed."""
        if line == 0:
            return 0
        if line < 0 or line >= self.lines:
            return None
        block = bisect_left(self._ends, line)  # the first block that holds the line's start or the newline before it
        left = line - (self._ends[block - 1] if block else 0)
        data = self._read(block * BLOCK, BLOCK)
        position = -1
        for _ in range(left):
            position = data.find(b"\n", position + 1)
            if position < 0:
                return None  # the file changed behind the index
        return block * BLOCK + position + 1

    def line_at(self, offset: int) -> int:
        """Number (from 0) of the line that the byte at `offset` belongs to; `offset` must be indexed."""
        block = offset // BLOCK
        before = self._ends[block - 1] if block else 0
        return before + self._read(block * BLOCK, offset - block * BLOCK).count(b"\n")

    def next_line_end(self, offset: int) -> int:
        """`offset`, or the later beginning of the first block that a line ends in, as far as is indexed.

        Args:
            offset: the position of a reader; only the beginning of a block can be moved on.
        """
        block, rest = divmod(offset, BLOCK)
        if rest or block >= len(self._ends):
            return offset
        before = self._ends[block - 1] if block else 0
        return bisect_right(self._ends, before, lo=block) * BLOCK
