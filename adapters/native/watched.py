"""When the stacks of a process are captured again."""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

__all__ = ["Watched"]


class Watched(Struct):
    """One process.

    Attributes:
        taken: thread -> since when it waited, and in what, when its stack was taken.
        next_s: when it may be captured again, on time.monotonic().
        brief_s: the same for a capture of brief waits alone.
        long_s: the same where a wait has become long since: what the first capture costs must not hide a stall.
    """

    taken: dict[str, object] = field(default_factory=dict)
    next_s: float = 0.0
    brief_s: float = 0.0
    long_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def worth(self, now_s: float, *, lasting: bool, long: bool) -> bool:
        """Whether the waits whose stacks are not known are worth their cost now.

        Args:
            now_s: on time.monotonic().
            lasting: one of them is not brief.
            long: one of them may soon be a stall.
        """
        if long and now_s >= self.long_s:
            return True
        return now_s >= self.next_s and (lasting or now_s >= self.brief_s)
