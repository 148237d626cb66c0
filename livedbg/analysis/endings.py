"""The verdict on a job whose processes have all ended: by the status of each of them.

Invariants:
    endings.E1. A status is said of the processes that ended with it, and of no other; one that is not known is said
        to be unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.analysis.rules.ends import heads, how_ended
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import Process
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["exited"]

_SHOWN: Final = 3
"""Other ways to end that are given; so many processes of each are named, or counted."""


def exited(processes: Sequence[Process], snapshot: Snapshot) -> Verdict:
    """The end of all processes; `exited` only where the status of those that the job is, is known.

    Args:
        processes: those that the user looks at; at least one, and all have ended.
        snapshot: what is known.
    """
    job = heads(snapshot) or processes
    first = next((process for process in job if process.exit_status is None), job[0])
    name = sentence_case(name_of(first.id, snapshot))
    rest = [process for process in processes if process.id != first.id]
    if first.exit_status is None:
        sentence = f"{name} has ended; its exit status is not known: its parent has collected it."
        told = _ways(rest, snapshot)
        more = f" {sentence_case('; '.join(told))}." if told else ""
        return Verdict(state=VerdictState.UNKNOWN, sentence=sentence + more)
    alike = [process for process in rest if process.exit_status == first.exit_status]
    more = f" and {many(len(alike), 'other')}" if alike else ""
    others = [process for process in rest if process.exit_status != first.exit_status]
    ways = [f"{name}{more} ended {how_ended(first.exit_status)}", *_ways(others, snapshot)]
    return Verdict(state=VerdictState.EXITED, sentence=f"{'; '.join(ways)}.")


def _ways(processes: Sequence[Process], snapshot: Snapshot) -> list[str]:
    """How processes ended: signals first, then statuses, then those of which it is not known."""
    by_status: dict[int | None, list[Process]] = {}
    for process in processes:
        by_status.setdefault(process.exit_status, []).append(process)
    known = sorted(status for status in by_status if status is not None and status != 0)
    ways = [f"{_who(by_status[status], snapshot)} ended {how_ended(status)}" for status in known[:_SHOWN]]
    if rest := sum(len(by_status[status]) for status in known[_SHOWN:]):
        ways.append(f"{rest:,} more ended in other ways")
    if 0 in by_status:
        ways.append(f"{_who(by_status[0], snapshot)} ended {how_ended(0)}")
    if unknown := by_status.get(None):
        ways.append(f"the exit status of {_who(unknown, snapshot)} is not known")
    return ways


def _who(processes: Sequence[Process], snapshot: Snapshot) -> str:
    """Their names, or how many they are."""
    if len(processes) > _SHOWN:
        return f"{len(processes):,} others"
    return ", ".join(name_of(process.id, snapshot) for process in processes)
