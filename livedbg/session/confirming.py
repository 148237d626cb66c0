"""Confirmation of claims by fresh readings, before they are reported (livedbg.model.claims).

One reading: check that the blocked threads of the claim are still in place, and those that ended still gone; then all
adapters read again; then check the same threads once more. A thread that has not run between the two has neither
acquired nor released anything, so all that the adapters read in between held at one moment.

Invariants:
    confirming.K1. A claim is confirmed only by readings that began after it was made.
    confirming.K2. A thread that a signal woke from its wait has run, though nothing changed. It counts as waiting all
        the time only if AGAIN readings in a row found the claim unchanged, and each of them found the thread before and
        after in the very same call.
    confirming.K3. A reading in which an adapter could not read again confirms nothing: its data is old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from livedbg.linux.ending import blocked_call, has_ended, runs_if_blocked
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import ids
from livedbg.model.claims import Claim
from livedbg.model.snapshot import Snapshot

AGAIN: Final = 5
"""Readings in a row that a claim with an interrupted wait has to stand."""

IN_VAIN: Final = 10
"""Readings in a row after which a claim that none of them confirmed is reported as uncertain."""


class Reading(Struct):
    """A reading of some claims in progress.

    Attributes:
        calls: thread -> its blocking call at the start of the reading.
        refuted: keys of claims with a thread or process in another state.
    """

    claims: Mapping[str, Claim]
    calls: dict[str, BlockedSyscall | None]
    refuted: set[str]


class Confirming:
    """The claims of a session about entities of `host`, and how often each was read again."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._times: dict[str, int] = {}

    def begin(self, claims: Iterable[Claim], snapshot: Snapshot) -> Reading:
        """Begin a reading of some claims."""
        reading = Reading({claim.key: claim for claim in claims}, {}, set())
        for claim in reading.claims.values():
            if not self._gone(claim, snapshot):
                reading.refuted.add(claim.key)
            reading.calls |= {thread: blocked_call(*_numbers(thread)) for thread in claim.still if self._here(thread)}
        return reading

    def end(
        self, reading: Reading, made: Mapping[str, Claim], snapshot: Snapshot, *, whole: bool = True
    ) -> tuple[Claim, ...]:
        """End a reading; return the confirmed claims, and those to report as uncertain.

        `made` are all claims from the fresh data. If not `whole`, some adapter could not read again (K3).
        """
        read = []
        for key, before in reading.claims.items():
            after = made.get(key)
            if after is None or key in reading.refuted or not self._gone(after, snapshot):
                self._times.pop(key, None)
                continue
            self._times[key] = self._times.get(key, 0) + 1
            moved = [thread for thread in after.still if self._moved(thread, before, after)]
            if whole and (not moved or (self._times[key] >= AGAIN and self._same_calls(moved, reading))):
                read.append(after)
            elif self._times[key] >= IN_VAIN:
                read.append(structs.replace(after, confirmed=False))
        self._times = {key: times for key, times in self._times.items() if key in made}
        return tuple(read)

    def _here(self, entity: str) -> bool:
        return ids.parse(entity).parts[0] == self._host

    def _moved(self, thread: str, before: Claim, after: Claim) -> bool:
        runs = after.still[thread]
        return before.still.get(thread) != runs or (self._here(thread) and runs_if_blocked(*_numbers(thread)) != runs)

    def _same_calls(self, threads: Iterable[str], reading: Reading) -> bool:
        calls = ((reading.calls.get(thread), thread) for thread in threads)
        return all(call is not None and call == blocked_call(*_numbers(thread)) for call, thread in calls)

    def _gone(self, claim: Claim, snapshot: Snapshot) -> bool:
        for name in filter(self._here, claim.gone):
            known = snapshot.processes.get(name)
            if known is not None:
                if not has_ended(known.pid, start_ticks=known.start_ticks):
                    return False
            elif name.startswith("thread:") and not has_ended(*_numbers(name)):
                return False
        return True


def _numbers(thread: str) -> tuple[int, int]:
    _, pid, tid = ids.parse(thread).parts
    return int(pid), int(tid)
