"""When the threads of processes last moved: what says whether a sample would find something new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from livedbg.model.snapshot import Snapshot

_STILL_NS: Final = 1_000_000_000


class Movement(NamedTuple):
    """The movement of one process.

    Attributes:
        signature: when each of its threads last moved; None when that is not known.
        still: its threads that looks have not seen move for a while.
    """

    signature: object
    still: frozenset[str] = frozenset()


UNKNOWN: Final = Movement(None)


def movements(snapshot: Snapshot) -> Mapping[str, Movement]:
    """The movement of each process, by its identifier."""
    looked = snapshot.as_of_looks()
    moved: dict[str, dict[str, int]] = {}
    for thread in snapshot.threads.values():
        if not thread.exited:
            activity = snapshot.activity.get(thread.id)
            moved.setdefault(thread.process, {})[thread.id] = activity.changed_mono_ns if activity else 0
    found: dict[str, Movement] = {}
    for process, threads in moved.items():
        known = snapshot.processes.get(process)
        before_ns = looked.now(known.host if known is not None else None).mono_ns - _STILL_NS
        still = frozenset(name for name, at_ns in threads.items() if at_ns <= before_ns)
        found[process] = Movement(tuple(threads.items()), still)
    return found
