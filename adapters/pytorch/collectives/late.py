"""Stragglers: ranks that repeatedly come last to the collectives of a group.

Invariants:
    late.L1. Only delays after the ranks had met count: of several collectives that one rank enqueued while it waited
        for another, as in a backward pass, one counts.
    late.L2. A rank is named only if it came last each time, a second or more after every other rank of the group, and
        all ranks of the group are seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from livedbg.adapters.pytorch.collectives.joined import Look, named
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.adapters.pytorch.facts import LateFacts
from livedbg.model import Diagnostic, Evidence, Severity
from livedbg.text.patterns import lazy_re
from livedbg.text.quantities import duration

LATE: Final = "late-rank"
"""Code of the diagnostic."""

TIMES: Final = 5
"""So many collectives are looked at."""

_ALIKE: Final = 1.5
"""Delays whose longest is that many times the shortest are said as one."""

_LEAST_NS: Final = 1_000_000_000
_SHARE: Final = 0.2
"""Of the time from one of them to the next: who is late by less holds nobody up for long."""

_NEWEST: Final = 400
"""Entries of a ring that are looked at."""

_TOGETHER: Final = lazy_re(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier")
"""Operations that complete on no rank before all have come."""

_Arrivals = Mapping[int, Entry]


def latecomers(looks: Sequence[Look]) -> list[Diagnostic]:
    """Return diagnostics of the stragglers of a job, largest delay first; at most one for each group."""
    found: dict[tuple[str, str], dict[int, dict[int, Entry]]] = {}
    for look in looks:
        for entry in _newest(look):
            if not entry.is_p2p:
                found.setdefault((entry.backend, entry.group), {}).setdefault(entry.sequence, {})[look.rank] = entry
    processes = {look.rank: look.process for look in looks}
    groups = {name: ranks for look in looks for name, ranks in look.groups.items()}
    late = [_late(met, groups.get(group, ()), processes) for (_, group), met in found.items()]
    return [said for _, said in sorted(filter(None, late), key=lambda one: -one[0])]


def _newest(look: Look) -> Iterator[Entry]:
    for ring in look.rings:
        yield from ring.entries[-_NEWEST:]


def _late(
    met: Mapping[int, _Arrivals], members: Sequence[int], processes: Mapping[int, str]
) -> tuple[int, Diagnostic] | None:
    """Return the diagnostic of a rank that was late to each of the last collectives of a group, and its least delay."""
    if len(members) < 2 or not all(rank in processes for rank in members):
        return None
    whole = [number for number, arrivals in sorted(met.items()) if len(arrivals) == len(members)]
    counted: list[int] = []
    for number in reversed(whole):
        if counted and _last(met[number]) > _first(met[counted[-1]]):
            continue  # L1
        counted.append(number)
        if len(counted) == TIMES + 1:  # the first of them only says since when
            break
    if len(counted) <= TIMES:
        return None
    delays = [_delay(met[number]) for number in counted[:TIMES]]
    ranks = {rank for rank, _ in delays}
    least, most = min(by for _, by in delays), max(by for _, by in delays)
    between = (_last(met[counted[0]]) - _last(met[counted[TIMES]])) / TIMES
    if len(ranks) > 1 or least < max(_LEAST_NS, _SHARE * between):
        return None
    (rank,) = ranks
    names = {entry.name for number in counted[:TIMES] for entry in met[number].values()}
    if not all(_TOGETHER.search(name) for name in names):
        return None
    group = named(met[counted[0]][rank].description)
    others = [one for one in members if one != rank]
    than = f"rank {others[0]}" if len(others) == 1 else "the others"
    by = f"{duration(least)} to {duration(most)}" if most > least * _ALIKE else duration(least)
    operations = f"{names.pop() if len(names) == 1 else 'collective'}s{f' of group {group}' if group else ''}"
    to = f"to each of the last {TIMES} {operations}"
    if counted[0] - counted[TIMES - 1] != TIMES - 1:  # the group had others in between
        to = f"to {operations}, {TIMES} times in a row"
    ranks_text = ", ".join(map(str, sorted(members)[:32]))
    text = f"the times at which ranks {ranks_text} enqueued the last {TIMES} that they met in"
    came_ns = _last(met[counted[0]])
    return least, Diagnostic(
        id=f"pytorch/{LATE}/{processes[rank]}/{group}",
        system="pytorch",
        code=LATE,
        severity=Severity.WARNING,
        sentence=f"rank {rank} came {by} later than {than} {to}",
        entities=(processes[rank],),
        facts=LateFacts(most_ns=most, last_wall_ns=came_ns),
        evidence=(Evidence(kind="memory", source="Flight Recorders", text=text),),
        at_wall_ns=came_ns,
    )


def _delay(arrivals: _Arrivals) -> tuple[int, int]:
    """Return the last rank, and its delay after the one before."""
    *_, before, last = sorted(arrivals, key=lambda rank: arrivals[rank].created_wall_ns)
    return last, arrivals[last].created_wall_ns - arrivals[before].created_wall_ns


def _first(arrivals: _Arrivals) -> int:
    return min(entry.created_wall_ns for entry in arrivals.values())


def _last(arrivals: _Arrivals) -> int:
    return max(entry.created_wall_ns for entry in arrivals.values())
