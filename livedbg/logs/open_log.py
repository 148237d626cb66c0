"""One log that is open for reading lines of it by number."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.logs.bytesource import ByteSource, open_bytes
from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import LogFormats
from livedbg.logs.index import LineIndex
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.search import Matcher, compile_pattern
from livedbg.logs.search_shown import ShownMatcher
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.model import LogSource

__all__ = ["BLOCK", "OpenLog"]

BLOCK: Final = 64 * 1024
"""Bytes at the beginning that show how the lines are wrapped; so many are read at once."""


class OpenLog:
    """One log that is open. Its lock guards the index and the position of the reader."""

    def __init__(self, source: LogSource, path: Path, formats: LogFormats) -> None:
        self.path = path
        self.data: ByteSource = open_bytes(path)
        self.index = LineIndex(self.data.read)
        self.lock = threading.Lock()
        self.checked = time.monotonic()
        self.complete = False
        self.closed = False
        mtime_ns = target_files.status(path).st_mtime_ns
        self.assembler = RecordAssembler(source.id, SourceClock(mtime_ns), formats)
        self.assembler.learn(LineCutter().feed(self.data.read(0, BLOCK)))  # also finds the clock anchor

    def matcher(self, pattern: str, shown: Callable[[str], str]) -> Matcher:
        """What finds a pattern in the lines as they are shown.

        Raises:
            ValueError: it is no regular expression.
        """
        matcher = compile_pattern(pattern)
        door = FrontDoor(SourceClock(0, 0))  # the reader's own is used by another thread
        door.learn(LineCutter().feed(self.data.read(0, BLOCK)))
        return ShownMatcher(pattern, matcher, door, shown) if door.wraps else matcher

    def work(self) -> bool:
        """Index a bounded piece; False when all that is there is indexed."""
        with self.lock:
            if self.closed:
                return False
            filled = self.data.fill()
            more = self.index.extend(self.data.size)
            self.complete = not (filled or more)
            return not self.complete

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self.closed = True
            self.data.close()
