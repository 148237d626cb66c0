"""Prove from readings of its position that a loop progresses, where CPU time, or waking from naps, proves nothing.

Invariants:
    loop_progress.G1. A loop progresses if the positions of it and of the loops inside it, read one after the other,
        rose five times or more and never fell, like an odometer; three times, if each was read while the thread slept.
    loop_progress.G2. It must be the outermost loop that moved, and take 10 s or more as a whole at that rate: a loop
        that polls, and walks its short list again and again, looks the same for a moment. One that would take over a
        year is not there to be completed: it polls until something comes.
    loop_progress.G3. A thread that naps is read only while its loops may still prove progress: at most MOST_S, a third
        of that if none of them has moved by then, and once if only its own end ends none of them (for_loops.E1).
    loop_progress.G4. A thread makes steps if each of its readings was in steady loops (for_loops.E3), and it was
        elsewhere five times or more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final, NamedTuple

from livedbg.adapters.samples.python_frames import PythonFrames
from livedbg.cpython.for_loops import ForLoop
from livedbg.cpython.objects import Code
from livedbg.model import Thread, ids

_RISES: Final = 5
_RISES_ASLEEP: Final = 3
_LEAST_S, _MOST_S = 10.0, 365 * 86400.0
_KEPT: Final = 16  # readings that differ


class LoopProgress(NamedTuple):
    """A loop that progresses.

    Attributes:
        per_s: iterations a second.
        steps: it is one of steady loops (G4), of which steps were seen, rather than iterations.
    """

    loop: ForLoop
    per_s: float
    steps: bool = False


class LoopHistory:
    """Readings of the loops of one thread.

    Args:
        rises: that prove something.
    """

    def __init__(self, rises: int = _RISES) -> None:
        self._rises = rises
        self._readings: deque[tuple[int, dict[int, int]]] = deque(maxlen=_KEPT)  # when, iterator -> position

    @property
    def moved(self) -> bool:
        """Return whether some loop has moved."""
        return len(self._readings) > 1

    def add(self, mono_ns: int, loops: Sequence[ForLoop]) -> LoopProgress | None:
        """Add a reading; return the loop that surely progresses, or None.

        Args:
            mono_ns: when it was taken.
            loops: outermost first.
        """
        newest = {loop.iterator: loop for loop in loops}
        shared = [key for key in newest if all(key in positions for _, positions in self._readings)]
        positions = {key: newest[key].position for key in shared or newest}
        if not shared:
            self._readings.clear()
        if self._readings and all(self._readings[-1][1][key] == positions[key] for key in shared):
            return None
        self._readings.append((mono_ns, positions))
        moved = [key for key in shared if self._readings[0][1][key] != positions[key]]
        if not moved:
            return None
        nest = shared[shared.index(moved[0]) :]
        if not self._is_proven(nest):
            return None
        loop, rate = newest[moved[0]], self._rate(moved[0])
        whole = loop.total if loop.total is not None and loop.position >= 0 else abs(loop.position)
        return LoopProgress(loop, rate) if _LEAST_S * rate <= whole <= _MOST_S * rate else None

    def _is_proven(self, nest: Sequence[int]) -> bool:
        """Return whether some of the nested loops, from the outermost on, rose often enough together (G1)."""
        for depth in range(1, len(nest) + 1):
            read = [tuple(positions[key] for key in nest[:depth]) for _, positions in self._readings]
            if any(after < before for before, after in pairwise(read)):
                if depth == 1:
                    newest = self._readings[-1]
                    self._readings.clear()
                    self._readings.append(newest)
                return False
            if sum(after > before for before, after in pairwise(read)) >= self._rises:
                return True
        return False

    def _rate(self, key: int) -> float:
        (first_ns, first), (last_ns, last) = self._readings[0], self._readings[-1]
        return (last[key] - first[key]) * 1e9 / max(last_ns - first_ns, 1)


class StepHistory:
    """Where a thread was, as long as it was in steady loops."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._steps = 0
        self._at: tuple[int, ...] = ()

    def add(self, mono_ns: int, seen: tuple[Code, tuple[int, ...]] | None) -> LoopProgress | None:
        """Add a reading (ForLoopReader.steps); return that the thread makes steps (G4), or None."""
        if seen is None or not self._at:
            self._began_ns, self._steps, self._at = mono_ns, 0, () if seen is None else seen[1]
            return None
        code, at = seen
        self._steps += at != self._at
        self._at = at
        if self._steps < _RISES:
            return None
        rate = self._steps * 1e9 / max(mono_ns - self._began_ns, 1)
        return LoopProgress(ForLoop(code, 0, self._steps, None), rate, steps=True)


class Readings:
    """What was read of the loops of one running thread: of all, of those that only their own end ends, and steps."""

    def __init__(self) -> None:
        self.loops, self.ending, self.steps = LoopHistory(), LoopHistory(), StepHistory()


class LoopReadings:
    """What was read of the loops of running threads, with the reader, which is kept: to find an interpreter costs."""

    def __init__(self) -> None:
        self.frames = PythonFrames()
        self.of: dict[str, Readings] = {}

    def keep(self, threads: Container[str]) -> None:
        """Forget other threads."""
        self.of = {name: known for name, known in self.of.items() if name in threads}


MOST_S: Final = 4.0
"""For how long naps are watched: four of a second each."""

_APART_S: Final = 0.05


class Naps:
    """Readings of the loops of threads that nap, and of the tasks of their event loops."""

    def __init__(self) -> None:
        self._python = PythonFrames()
        self._histories: dict[tuple[str, int], LoopHistory] = {}

    def watch(self, threads: Sequence[Thread], seconds: float) -> dict[str, LoopProgress]:
        """Return the loops that progress. Blocking.

        Args:
            threads: that nap.
            seconds: for how long to read them again.
        """
        numbers = {thread.id: ids.parse(thread.id).parts[1:] for thread in threads}
        left = {name: (int(pid), int(tid)) for name, (pid, tid) in numbers.items()}
        self._histories = {key: known for key, known in self._histories.items() if key[0] in left}
        self._python.refresh({pid for pid, _ in left.values()})
        found: dict[str, LoopProgress] = {}
        began_s = time.monotonic()
        while left:
            passed_s = time.monotonic() - began_s
            for name, (pid, tid) in list(left.items()):
                nests: Mapping[int, Sequence[ForLoop]] | None = {}
                with suppress(OSError, OverflowError, ValueError):
                    nests = self._python.ending_loops(pid, tid, asleep=True)
                for of, loops in (nests or {}).items():
                    history = self._histories.setdefault((name, of), LoopHistory(_RISES_ASLEEP))
                    if (progress := history.add(time.monotonic_ns(), loops)) is not None:
                        found[name] = progress
                moved = any(history.moved for (of, _), history in self._histories.items() if of == name)
                too_slow = passed_s > MOST_S / _RISES_ASLEEP and not moved
                if name in found or nests == {} or too_slow:
                    del left[name]
            if passed_s >= seconds:
                break
            time.sleep(_APART_S)
        return found
