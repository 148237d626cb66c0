"""Since when each frame of a running thread has been in every sample of it.

A frame is held while it and all frames outside it are the same functions. What a loop calls comes and goes; the
function that the loop is in is held.

Invariant:
    samples_held.H1. A frame is held since a sample that had it, and every sample after that one had it too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from livedbg.model import Frame

__all__ = ["HeldFrames"]


class _Held(NamedTuple):
    """One frame: its function, and in which samples it is."""

    function: str
    module: str | None
    since_ns: int
    samples: int


class HeldFrames:
    """The frames of threads, and since when they are held."""

    def __init__(self) -> None:
        self._held: dict[int, list[_Held]] = {}

    def seen(self, tid: int, frames: Sequence[Frame], taken_ns: int) -> tuple[Frame, ...]:
        """One more sample of a thread.

        Args:
            tid: the thread.
            frames: innermost first.
            taken_ns: when the sample was taken.

        Returns:
            The frames, each with since when it is held.
        """
        before = self._held.get(tid, [])
        after: list[_Held] = []
        for place, frame in enumerate(reversed(frames)):
            known = before[place] if place < len(before) else None
            if known is None or (known.function, known.module) != (frame.function, frame.module):
                before = []  # what is inside another function is another place
                after.append(_Held(frame.function, frame.module, taken_ns, 1))
            else:
                after.append(known._replace(samples=known.samples + 1))
        self._held[tid] = after
        return tuple(
            msgspec.structs.replace(frame, held_mono_ns=held.since_ns, held_samples=held.samples)
            for frame, held in zip(frames, reversed(after), strict=True)
        )

    def keep(self, tids: Collection[int]) -> None:
        """Forget all threads but these: one that was blocked meanwhile begins anew."""
        for tid in self._held.keys() - set(tids):
            del self._held[tid]
