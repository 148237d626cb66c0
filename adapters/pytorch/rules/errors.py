"""The error that ended a rank, where the logs leave no doubt which it was."""

from __future__ import annotations

from collections.abc import Collection

from livedbg.analysis.rules.base import RuleInput


def only_error(times: int, state: RuleInput, others: Collection[str] = ()) -> str:
    """`: ValueError: bad shard`, if it is the one exception that the logs show; "" where there are several, or it came
    less often.

    Args:
        times: so many processes have ended by it.
        state: all that is known.
        others: processes whose own logs may show it, but not those that ended.
    """
    hits = [hit for hit in state.snapshot.exceptions.values() if hit.source is not None]
    if len(hits) != 1 or hits[0].count < times or hits[0].process in others:
        return ""
    return f": {hits[0].type}: {hits[0].message}".rstrip(": .")
