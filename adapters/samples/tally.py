"""Stacks of samples, counted by thread until they are put on the stream."""

from __future__ import annotations

from dataclasses import dataclass, field

from livedbg.model import Frame
from livedbg.model.profiles import ProfileSlice, SampledStack

__all__ = ["Tally"]


@dataclass(slots=True)
class _Counted:
    """Of one thread.

    Attributes:
        stacks: frames, and whether they are whole -> samples and their CPU time.
    """

    start_mono_ns: int
    end_mono_ns: int
    unknown: int = 0
    stacks: dict[tuple[tuple[Frame, ...], bool], tuple[int, int]] = field(default_factory=dict)


class Tally:
    """Counts stacks."""

    def __init__(self) -> None:
        self._threads: dict[str, _Counted] = {}

    def add(self, thread: str, mono_ns: int, period_ns: int, frames: tuple[Frame, ...], whole: bool = True) -> None:
        """Count a sample.

        Args:
            thread: whose it is.
            mono_ns: when it was taken.
            period_ns: CPU time that it represents.
            frames: its stack; empty where it has none.
            whole: the outermost frame is there.
        """
        entry = self._threads.get(thread)
        if entry is None:
            entry = self._threads[thread] = _Counted(mono_ns, mono_ns)
        entry.start_mono_ns = min(entry.start_mono_ns, mono_ns)
        entry.end_mono_ns = max(entry.end_mono_ns, mono_ns)
        if not frames:
            entry.unknown += 1
            return
        samples, cpu_ns = entry.stacks.get((frames, whole), (0, 0))
        entry.stacks[frames, whole] = samples + 1, cpu_ns + period_ns

    def lose(self, thread: str, samples: int) -> None:
        """Count samples that were dropped, of a thread that has others."""
        if (entry := self._threads.get(thread)) is not None:
            entry.unknown += samples

    def take(self) -> tuple[ProfileSlice, ...]:
        """What was counted since the last time."""
        threads, self._threads = self._threads, {}
        return tuple(
            ProfileSlice(
                thread=thread,
                start_mono_ns=entry.start_mono_ns,
                end_mono_ns=entry.end_mono_ns,
                stacks=tuple(
                    SampledStack(frames, cpu_ns, samples, whole)
                    for (frames, whole), (samples, cpu_ns) in entry.stacks.items()
                ),
                unknown=entry.unknown,
            )
            for thread, entry in threads.items()
        )
