"""Join the recorders of a job's ranks: which collectives are pending, which ranks are in them, and which are not.

Invariants:
    joined.J1. A collective counts as pending for a rank only if it was pending in two samples, and the thread that
        enqueued it enqueued and completed nothing else between them, in any group. One sample of a healthy job shows
        pending collectives about half of the time. Other threads don't matter: a helper may compare clocks with other
        ranks for as long as the job hangs.
    joined.J3. A rank that has not entered a collective goes on only if a thread moved that has entered collectives of
        that group before; any thread, if its recorder has none of the group.
    joined.J4. A group that was recreated under its name counts from 1 again: only the newest instance counts, and only
        entries newer than any rank's last one in an older instance.
    joined.J2. A rank is said not to have entered a collective only if its recorder was read, and still has its last
        entry of that group, or has lost nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.python_calls import PythonCall
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.text.patterns import lazy_re

_UNEVEN: Final = lazy_re(r"all_?to_?all")


class Look(Struct, frozen=True, kw_only=True):
    """One rank at one moment.

    Attributes:
        groups: the ranks of its groups, by name.
        initialised: it has process groups; if not, `rank` comes from its environment.
        handles: the signals that it handles, for users; "" for none.
    """

    rank: int
    process: str
    rings: tuple[Ring, ...]
    groups: Mapping[str, tuple[int, ...]]
    calls: tuple[PythonCall, ...] = ()
    initialised: bool = True
    handles: str = ""

    @property
    def entries(self) -> Iterable[Entry]:
        for ring in self.rings:
            yield from ring.entries

    @property
    def entered_groups(self) -> frozenset[tuple[str, str]]:
        """Return the named groups in which it has enqueued collectives, with their backend."""
        return frozenset((entry.group, entry.backend) for entry in self.entries if entry.group and not entry.is_p2p)

    def entered(self, group: str, backend: str) -> tuple[list[Entry], int]:
        """Return its collectives in a group's newest instance (J4), and the time of its last one in older ones."""
        all_of_it = [e for e in self.entries if e.group == group and not e.is_p2p and e.backend == backend]
        newest = max((entry.instance for entry in all_of_it), default=0)
        before_ns = max((entry.created_wall_ns for entry in all_of_it if entry.instance != newest), default=0)
        return [entry for entry in all_of_it if entry.instance == newest], before_ns

    def reached(self, group: str, backend: str, after_wall_ns: int = 0) -> int | None:
        """Return the number of the newest collective enqueued in a group; 0 for none, None if not known.

        Args:
            after_wall_ns: when any rank enqueued its last one in an older group of that name.
        """
        entries, _ = self.entered(group, backend)
        if entries and min(entry.created_wall_ns for entry in entries) > after_wall_ns:
            return max(entry.sequence for entry in entries)
        return 0 if entries or all(ring.whole for ring in self.rings) else None

    def completed(self, one: Entry) -> bool:
        """Return whether it still has another rank's collective, and has completed it."""
        entries, _ = self.entered(one.group, one.backend)
        return any((e.sequence, e.name, e.done) == (one.sequence, one.name, True) for e in entries)

    def moved_by(self, before: Look) -> frozenset[int]:
        """Return the threads that have enqueued or completed something since another sample."""
        known = {(entry.backend, entry.record): entry.done for entry in before.entries}
        changed = (entry for entry in self.entries if known.get((entry.backend, entry.record)) != entry.done)
        return frozenset(entry.thread for entry in changed)

    def moved_in(self, group: str, moved: frozenset[int]) -> bool:
        """Return whether a moved thread enters collectives of a group (J3)."""
        enter = {entry.thread for entry in self.entries if entry.group == group}
        return bool(moved & enter if enter else moved)


class Standing(Struct, frozen=True, kw_only=True):
    """A pending collective.

    Attributes:
        description: user's name of the group, or "".
        sequence: its number in the group.
        entries: by rank for which it is pending.
        passed: ranks that have completed it or are in a later one.
        absent: ranks that have not enqueued it.
        unseen: ranks of its group about which nothing is known.
        members: all ranks of the group.
    """

    group: str
    description: str
    sequence: int
    entries: Mapping[int, Entry]
    passed: tuple[int, ...]
    absent: tuple[int, ...]
    unseen: tuple[int, ...]
    members: tuple[int, ...]

    @property
    def first(self) -> Entry:
        """Return the earliest entry."""
        return min(self.entries.values(), key=lambda entry: entry.created_wall_ns)

    @property
    def differs(self) -> bool:
        """Return whether its ranks differ in operations or shapes. Inputs of an all_to_all may differ."""
        alike = [entry for entry in self.entries.values() if entry.shapes and not _UNEVEN.search(entry.name)]
        said = {(entry.name, entry.shapes[:1]) for entry in alike}
        return len({entry.name for entry in self.entries.values()}) > 1 or len(said) > 1


def named(description: str) -> str:
    """Return the user's name of a group; "" for torch's default names."""
    return "" if description in ("undefined", "default_pg") else description


def standing(before: Look | None, now: Look) -> tuple[Entry, ...]:
    """Return the pending collectives of a rank in named groups (J1), oldest first."""
    if before is None or before.process != now.process:
        return ()
    moved = now.moved_by(before)
    pending = [entry for group in now.entered_groups for entry in now.entered(*group)[0] if not entry.done]
    return tuple(sorted((e for e in pending if e.thread not in moved), key=lambda entry: entry.created_wall_ns))


def join(looks: Sequence[Look], pending: Mapping[int, Sequence[Entry]]) -> list[Standing]:
    """Return the collectives that are pending for at least one rank of a job, oldest first."""
    by_rank = {look.rank: look for look in looks}
    found: dict[tuple[str, str, int], dict[int, Entry]] = {}
    for rank, entries in pending.items():
        for entry in entries:
            found.setdefault((entry.backend, entry.group, entry.sequence), {})[rank] = entry
    joined = [_joined(key, entries, by_rank) for key, entries in found.items()]
    return sorted(joined, key=lambda one: one.first.created_wall_ns)


def _joined(key: tuple[str, str, int], entries: Mapping[int, Entry], looks: Mapping[int, Look]) -> Standing:
    backend, group, sequence = key
    members: tuple[int, ...] = ()
    for rank in entries:
        members = max(members, looks[rank].groups.get(group, ()), key=len)
    others = [rank for rank in members if rank not in entries]
    before_ns = max(looks[rank].entered(group, backend)[1] for rank in entries)
    passed: list[int] = []
    absent: list[int] = []
    unseen: list[int] = []
    for rank in others:
        reached = looks[rank].reached(group, backend, before_ns) if rank in looks else None
        place = unseen if reached is None else passed if reached >= sequence else absent
        place.append(rank)
    described = next((entry.description for entry in entries.values() if entry.description), "")
    return Standing(
        group=group,
        description=named(described),
        sequence=sequence,
        entries=entries,
        passed=tuple(passed),
        absent=tuple(absent),
        unseen=tuple(unseen),
        members=members,
    )
