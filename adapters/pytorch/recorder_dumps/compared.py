"""Compares the dumps of a job's ranks: who was in which collective, and who was not.

Invariants:
    compared.R1. The rank that is named waits for no other one: of those that wait for each other none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.joined import Look, Standing, join
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.adapters.pytorch.recorder_dumps.dump_file import Dump
from livedbg.adapters.pytorch.rules.calls import rank_list
from livedbg.adapters.pytorch.rules.circles import ranks_behind

__all__ = ["Said", "compare"]


class Said(Struct, frozen=True, kw_only=True):
    """One statement about a job's dumps.

    Attributes:
        code: `dump-missing`, `dump-circle`, `dump-differs`, `dump-unseen`.
        sentence: for users.
        key: what tells it from others.
        since_wall_ns: when it was enqueued first.
        for_ns: how long before the last change of a file that was: of the dump itself, or of a copy.
        ranks: those that it is about, the culprits first.
    """

    code: str
    sentence: str
    key: str
    since_wall_ns: int
    for_ns: int
    ranks: tuple[int, ...]


def compare(dumps: Sequence[Dump]) -> list[Said]:
    """What the dumps say together, the culprit first; [] where no collective was pending."""
    world = max((max(ranks) + 1 for dump in dumps for ranks in dump.groups.values()), default=0)
    world = max(world, max((dump.rank + 1 for dump in dumps), default=0))
    looks = [_look(dump, dumps, world) for dump in dumps]
    pending = {dump.rank: tuple(e for e in dump.entries if not e.done and not e.is_p2p) for dump in dumps}
    found = join(looks, pending)
    written = max((dump.written_wall_ns for dump in dumps), default=0)
    by_rank = {dump.rank: dump for dump in dumps}
    said = [_differs(one, by_rank, written) for one in found if one.differs]
    roots = _roots(found)
    for rank in sorted(roots):
        one = max((one for one in found if rank in one.absent), key=lambda one: len(one.entries))
        said.append(_missing(rank, one, found, by_rank, written))
    if not said and any(one.absent for one in found):
        said.append(_circle([one for one in found if one.absent], by_rank, written))
    if not said:
        said += [_unseen(one, by_rank, written) for one in found if one.unseen][:1]
    return said


def _look(dump: Dump, dumps: Sequence[Dump], world: int) -> Look:
    """A rank as it was; of groups whose ranks no dump has, those that have used them are the members."""
    groups: dict[str, tuple[int, ...]] = {"0": tuple(range(world))}
    for other in dumps:
        groups |= {name: ranks for name, ranks in other.groups.items() if len(ranks) > len(groups.get(name, ()))}
    for name in {entry.group for entry in dump.entries} - groups.keys():
        groups[name] = tuple(sorted(d.rank for d in dumps if any(entry.group == name for entry in d.entries)))
    ring = Ring(entries=dump.entries, count=len(dump.entries), whole=dump.whole)
    return Look(rank=dump.rank, process="", rings=(ring,), groups=groups)


def _roots(found: Iterable[Standing]) -> set[int]:
    """The ranks that others waited for, and that themselves waited in nothing (R1)."""
    found = list(found)
    waiting = {rank for one in found for rank in one.entries}
    return {rank for one in found for rank in one.absent} - waiting


def _title(one: Standing) -> str:
    group = one.description or ("" if one.group == "0" else one.group)
    return f"{one.first.name} #{one.sequence}{f' of group {group}' if group else ''}"


def _place(one: Standing, dumps: Mapping[int, Dump]) -> str:
    """` (train.py:41)`: where those that were in it enqueued it, if they did at one line."""
    lines = {dumps[rank].lines.get(entry.record, "") for rank, entry in one.entries.items()}
    return f" ({next(iter(lines))})" if len(lines) == 1 and "" not in lines else ""


def _last(dump: Dump) -> str:
    """What a rank had enqueued last."""
    entry: Entry | None = max(dump.entries, key=lambda entry: entry.record, default=None)
    if entry is None:
        return "it had entered none"
    group = entry.description or entry.group
    line = dump.lines.get(entry.record, "")
    return f"its last was {entry.name} #{entry.sequence} of {group}{f' ({line})' if line else ''}"


def _missing(rank: int, one: Standing, found: Iterable[Standing], dumps: Mapping[int, Dump], written_ns: int) -> Said:
    waiting = ranks_behind(rank, ((one.entries, one.absent) for one in found))
    world = max(len(dumps), len(one.members))
    return Said(
        code="dump-missing",
        sentence=(
            f"Rank {rank} of {world} had not entered {_title(one)} when the Flight Recorders were dumped; "
            f"{_last(dumps[rank])}; {rank_list(waiting)} waited for it{_place(one, dumps)}."
        ),
        key=f"{one.group}/{one.sequence}/{rank}",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=(rank, *waiting),
    )


def _differs(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    does: dict[str, list[int]] = {}
    for rank, entry in one.entries.items():
        shape = f" [{', '.join(map(str, entry.shapes[0]))}]" if entry.shapes else ""
        does.setdefault(f"{entry.name}{shape}", []).append(rank)
    few = sorted(does.items(), key=lambda item: (len(item[1]), item[1]))
    parts = "; ".join(f"{rank_list(ranks)}: {what}" for what, ranks in few)
    return Said(
        code="dump-differs",
        sentence=f"{_title(one)} was not the same on all ranks{_place(one, dumps)}: {parts}.",
        key=f"{one.group}/{one.sequence}/differs",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=tuple(rank for _, ranks in few for rank in ranks),
    )


def _circle(found: Sequence[Standing], dumps: Mapping[int, Dump], written_ns: int) -> Said:
    ordered = sorted(found, key=lambda one: -len(one.entries))
    parts = [
        f"{rank_list(one.entries, start=not number)} waited in {_title(one)}{_place(one, dumps)}"
        for number, one in enumerate(ordered)
    ]
    oldest = min(one.first.created_wall_ns for one in found)
    return Said(
        code="dump-circle",
        sentence=f"{'; '.join(parts)}: the ranks did not call the same in one order.",
        key="circle",
        since_wall_ns=oldest,
        for_ns=written_ns - oldest,
        ranks=tuple(dict.fromkeys(rank for one in ordered for rank in one.entries)),
    )


def _unseen(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    return Said(
        code="dump-unseen",
        sentence=(
            f"{rank_list(one.entries, start=True)} waited in {_title(one)}{_place(one, dumps)}; there is no dump of "
            f"{rank_list(one.unseen)}."
        ),
        key=f"{one.group}/{one.sequence}/unseen",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=tuple(one.entries),
    )
