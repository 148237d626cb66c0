"""Claims: conclusions about living processes that are confirmed by fresh readings before they are reported.

Invariants:
    claims.C1. A deadlock, a stall or a crash of living processes is reported only after the readings that it rests on
        were taken again, and only if the diagnosis of the new readings comes to the same claim.
    claims.C2. Two readings at two times are joined only if no thread that the claim is about has run in between.
    claims.C3. A claim that keeps coming up and can't be confirmed is `unknown`, and says why.
"""

from __future__ import annotations

from msgspec import Struct


class Claim(Struct, frozen=True, omit_defaults=True):
    """A claim, and the readings to compare with fresh ones.

    Attributes:
        key: the rule, and the entities that it is about.
        still: threads blocked without a time limit -> their context switches at the sample. A thread that has not run
            since has neither released nor acquired anything.
        gone: ended threads and processes that the claim rests on.
        confirmed: the claim was read again and holds. False: it came up in many readings, no two of which are known to
            be of one moment.
    """

    key: str
    still: dict[str, int] = {}
    gone: tuple[str, ...] = ()
    confirmed: bool = True
