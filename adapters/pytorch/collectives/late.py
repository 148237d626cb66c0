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

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.joined import Look
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


class Late(Struct, frozen=True, kw_only=True):
    """A rank that was late to each of the last collectives of a group.

    Attributes:
        group: user's name; "" for the world group.
        operation: of these collectives; "collective" if they differ.
        all_of_them: the group had no others in between.
        least_ns: minimum delay after every other rank.
        most_ns: maximum delay.
        last_wall_ns: when it came to the last one.
    """

    rank: int
    process: str
    others: tuple[int, ...]
    group: str
    operation: str
    all_of_them: bool
    least_ns: int
    most_ns: int
    last_wall_ns: int


def latecomers(looks: Sequence[Look]) -> list[Late]:
    """Return the stragglers of a job, largest delay first; at most one for each group."""
    found: dict[tuple[str, str], dict[int, dict[int, Entry]]] = {}
    for look in looks:
        for entry in _newest(look):
            if not entry.is_p2p:
                found.setdefault((entry.backend, entry.group), {}).setdefault(entry.sequence, {})[look.rank] = entry
    processes = {look.rank: look.process for look in looks}
    groups = {name: ranks for look in looks for name, ranks in look.groups.items()}
    late = [_late(met, groups.get(group, ()), processes) for (_, group), met in found.items()]
    return sorted((one for one in late if one is not None), key=lambda one: -one.least_ns)


def _newest(look: Look) -> Iterator[Entry]:
    for ring in look.rings:
        yield from ring.entries[-_NEWEST:]


def _late(met: Mapping[int, _Arrivals], members: Sequence[int], processes: Mapping[int, str]) -> Late | None:
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
    described = met[counted[0]][rank].description
    return Late(
        rank=rank,
        process=processes[rank],
        others=tuple(one for one in members if one != rank),
        group="" if described in ("undefined", "default_pg") else described,
        operation=names.pop() if len(names) == 1 else "collective",
        all_of_them=counted[0] - counted[TIMES - 1] == TIMES - 1,
        least_ns=least,
        most_ns=most,
        last_wall_ns=_last(met[counted[0]]),
    )


def _delay(arrivals: _Arrivals) -> tuple[int, int]:
    """Return the last rank, and its delay after the one before."""
    *_, before, last = sorted(arrivals, key=lambda rank: arrivals[rank].created_wall_ns)
    return last, arrivals[last].created_wall_ns - arrivals[before].created_wall_ns


def _first(arrivals: _Arrivals) -> int:
    return min(entry.created_wall_ns for entry in arrivals.values())


def _last(arrivals: _Arrivals) -> int:
    return max(entry.created_wall_ns for entry in arrivals.values())


def late_diagnostic(late: Late) -> Diagnostic:
    """Return the diagnostic of a late rank."""
    than = f"rank {late.others[0]}" if len(late.others) == 1 else "the others"
    by = duration(late.least_ns)
    if late.most_ns > late.least_ns * _ALIKE:
        by = f"{by} to {duration(late.most_ns)}"
    of = f" of group {late.group}" if late.group else ""
    to = f"to each of the last {TIMES} {late.operation}s{of}"
    if not late.all_of_them:
        to = f"to {late.operation}s{of}, {TIMES} times in a row"
    sentence = f"rank {late.rank} came {by} later than {than} {to}"
    return Diagnostic(
        id=f"pytorch/{LATE}/{late.process}/{late.group}",
        system="pytorch",
        code=LATE,
        severity=Severity.WARNING,
        sentence=sentence,
        entities=(late.process,),
        facts=LateFacts(most_ns=late.most_ns, last_wall_ns=late.last_wall_ns),
        evidence=(Evidence(kind="memory", source="Flight Recorders", text=_text(late)),),
        at_wall_ns=late.last_wall_ns,
    )


def _text(late: Late) -> str:
    ranks = ", ".join(str(rank) for rank in sorted((late.rank, *late.others))[:32])
    return f"the times at which ranks {ranks} enqueued the last {TIMES} that they met in"
