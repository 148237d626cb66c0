"""Claims: what the diagnosis concludes of living processes, and what has to be read again before it is reported.

Invariants:
    claims.C1. A deadlock, a stall or a crash of living processes is reported only after the readings that it rests on
        were taken again, and only if the diagnosis of the new readings comes to the same claim.
    claims.C2. Two readings at two times are joined only if no thread that the claim is about has run in between.
    claims.C3. What can't be confirmed though it is claimed again and again is `unknown`, and says why.
"""

from __future__ import annotations

from msgspec import Struct


class Claim(Struct, frozen=True, omit_defaults=True):
    """A claim, and the readings that can be compared with fresh ones.

    Attributes:
        key: what is claimed of whom: the rule, and the entities that it is about.
        still: its threads that are blocked without a time limit -> how often each had been put on a CPU when it was
            sampled. One that has not run since has neither released nor taken anything.
        gone: threads and processes whose end the claim rests on.
        confirmed: it was read again and holds; False where it was claimed at each of many readings, of which no two
            are known to be of one moment.
    """

    key: str
    still: dict[str, int] = {}
    gone: tuple[str, ...] = ()
    confirmed: bool = True
