"""Reports files that a command writes while it runs, such as heap dumps, and how they grow.

Invariants:
    growing.E8. A file is reported once: when it stops growing, at the latest when the command ends.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from livedbg.recipes.globs import matching
from livedbg.recipes.model import Grows
from livedbg.recipes.plan import Part
from livedbg.text.quantities import byte_size

__all__ = ["Growing", "bytes_in_use"]

_LOOK_S: Final = 0.5
_MOST: Final = 10_000  # files that are reported
_HEAP: Final = re.compile(rb"heap profile: *\d+: *(\d+) \[ *\d+: *(\d+)\]")
"""Objects and bytes in use, and those ever allocated (gperftools docs/heapprofile.html; src/heap-profile-table.cc)."""


class Growing:
    """Reports files as they are written, on a thread of its own.

    Args:
        parts: of the plan.
        say: gets each line; called on the thread.
    """

    def __init__(self, parts: Sequence[Part], say: Callable[[str], None]) -> None:
        self._kinds = [(part.label, files) for part in parts for files in part.grows]
        self._say = say
        self._sizes: dict[str, int] = {}
        self._reported: set[str] = set()
        self._heaps: dict[str, list[int]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="livedbg-growing", daemon=True)
        if self._kinds:
            self._thread.start()

    def stop(self) -> None:
        """Report the last files, and end."""
        self._done.set()
        if self._kinds:
            self._thread.join()

    def _poll(self) -> None:
        last = False
        while True:
            for label, files in self._kinds:
                for line in self._new(label, files, last):
                    self._say(line)
            if last:
                return
            last = self._done.wait(_LOOK_S)

    def _new(self, label: str, files: Grows, last: bool) -> Iterator[str]:
        for path in matching(files.file):
            name = str(path)
            if name in self._reported or len(self._reported) >= _MOST:
                continue
            try:
                size = path.stat().st_size
            except OSError:
                continue
            if size and (last or self._sizes.get(name) == size):
                self._reported.add(name)
                yield f"{time.strftime('%H:%M:%S')} {label}: {self._described(label, files, path, size)}"
            self._sizes[name] = size

    def _described(self, label: str, files: Grows, path: Path, size: int) -> str:
        shown = path.name
        used = bytes_in_use(path) if files.form == "heap" else None
        if used is None:
            return f"{shown}, {byte_size(size)}"
        before = self._heaps.setdefault(f"{label} {shown.partition('.')[0]}", [])
        before.append(used)
        if len(before) == 1:
            return f"{shown}: {byte_size(used)} in use"
        steps = f"{_change(used - before[-2])} since the last dump, {_change(used - before[0])} since the first"
        grew = [later > earlier for earlier, later in pairwise(before)]
        always = f"; it grew at each of {len(grew)} steps" if len(grew) >= 3 and all(grew) else ""
        return f"{shown}: {byte_size(used)} in use, {steps}{always}"


def bytes_in_use(path: Path) -> int | None:
    """Bytes in use according to a heap profile of gperftools; None if the file is none."""
    try:
        with path.open("rb") as file:
            match = _HEAP.match(file.read(256))
    except OSError:
        return None
    return None if match is None else int(match[1])


def _change(count: int) -> str:
    return f"{'-' if count < 0 else '+'}{byte_size(abs(count))}"
