"""The copied stacks of a request: one file that the session writes, read by the unwinding process.

The file has the stacks of the threads one behind the other, in the order of the request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from livedbg.unwind.capture import ThreadCopy
from livedbg.unwind.wire import Copied


def write_stacks(path: Path, threads: Sequence[ThreadCopy]) -> None:
    """Write the stacks of some threads; only we may read the file.

    Raises:
        OSError: the file can't be written.
    """
    path.touch(mode=0o600)
    with path.open("wb") as out:
        out.writelines(thread.stack for thread in threads)


class CopiedStacks:
    """Memory of which nothing but the copied stacks of the present request can be read."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._stacks: list[bytes] = []

    def take(self, file: Path, threads: Sequence[Copied]) -> None:
        """Have the stacks of a request, instead of those of the one before.

        Raises:
            OSError: the file can't be read.
            ValueError: it is cut short.
        """
        self.clear()
        stacks: dict[int, bytes] = {}
        with file.open("rb") as source:
            for thread in threads:
                stack = source.read(thread.high - thread.low)
                if len(stack) != thread.high - thread.low:
                    raise ValueError("the copied stacks are cut short")
                if len(stack) > len(stacks.get(thread.low, b"")):
                    stacks[thread.low] = stack
        self._lows = sorted(stacks)
        self._stacks = [stacks[low] for low in self._lows]

    def clear(self) -> None:
        """Forget them."""
        self._lows, self._stacks = [], []

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a stack.

        Raises:
            LookupError: they were not copied.
        """
        place = bisect_right(self._lows, address) - 1
        if place >= 0:
            start = address - self._lows[place]
            data = self._stacks[place][start : start + size]
            if len(data) == size:
                return data
        raise LookupError(f"{address:#x} was not copied")
