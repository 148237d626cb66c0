"""The verdict until everything has been looked at once: what is being looked at, and nothing else.

What half a look shows is no state of the target: without the stacks a hung program seems to run, without /proc a living
one seems to be a log that ends somewhere.

Invariants:
    first_look.E1. Until every source has had its first full look, the verdict is `unknown`, says what was seen of how
        much and what is still to come, and there is no finding and no wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import many

_NAMED: Final = 4


def looking(snapshot: Snapshot, to_come: Sequence[str], *, stacks: bool) -> Diagnosis:
    """The diagnosis before the first full look.

    Args:
        snapshot: what was seen so far.
        to_come: the sources that have not had their first full look.
        stacks: a thread counts as looked at once its stack was taken.
    """
    threads = snapshot.last_threads()
    done = sum(1 for thread in threads if not stacks or thread.id in snapshot.stacks)
    seen = [f"{done:,} of {many(len(threads), 'thread')}"] if threads else []
    if snapshot.log_sources:
        seen.append(many(len(snapshot.log_sources), "log"))
    rest = f" and {len(to_come) - _NAMED} more" if len(to_come) > _NAMED else ""
    missing = f" Still to come: {', '.join(to_come[:_NAMED])}{rest}." if to_come else ""
    sentence = f"Looking: {', '.join(seen) or 'nothing was read yet'}.{missing}"
    return Diagnosis(
        Verdict(state=VerdictState.UNKNOWN, sentence=sentence), revision=snapshot.revision, is_looking=True
    )
