"""Compare two replies of NCCL's RAS service: ranks missing, dead, or behind in both (ras_adapter.R3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.ras.reply import Communicator, Launched, RasRank, RasReply
from livedbg.text.wording import many

BEHIND: Final = "ras-behind"
MISSING: Final = "ras-missing"
DEAD: Final = "ras-dead"
_NAMED: Final = 8


class Said(NamedTuple):
    """One statement."""

    key: str
    code: str
    sentence: str
    evidence: str


def compared(before: RasReply | None, now: RasReply) -> list[Said]:
    """Return the statements of the newest reply; if it is the first (`before` is None), no rank is called behind."""
    return [*_dead(now), *_missing(now), *(_behind(before, now) if before is not None else ())]


def _dead(reply: RasReply) -> Iterator[Said]:
    if reply.dead:
        names = ", ".join(reply.dead[:_NAMED])
        sentence = f"NCCL's RAS takes {many(len(reply.dead), 'process', 'processes')} for dead: {names}."
        yield Said(DEAD, DEAD, sentence, names)


def _missing(reply: RasReply) -> Iterator[Said]:
    for one in reply.communicators:
        if one.missing:
            sentence = f"NCCL's RAS has no data of {_ranks(one.missing)} of communicator {one.name}."
            yield Said(f"{MISSING}/{one.name}", MISSING, sentence, _processes(one.missing))


def _behind(before: RasReply, now: RasReply) -> Iterator[Said]:
    earlier = {one.name: one for one in before.communicators}
    for one in now.communicators:
        for operation in dict.fromkeys(group.operation for group in one.launched):
            lag = list(_lagging(earlier.get(one.name), one, operation))
            if not lag:
                continue
            ranks = sorted({rank for group in lag for rank in group.ranks})
            number = sum(group.number for group in lag)
            most = max(group.count for group in one.launched if group.operation == operation)
            counts = ", ".join(sorted({str(group.count) for group in lag}))
            who = _ranks(ranks) if ranks else many(number, "rank")
            what = f"{operation} {counts}" if operation else f"operation {counts}"
            sentence = (
                f"By NCCL's RAS {who} of communicator {one.name} launched {what} last, in two queries; others launched "
                f"{most}."
            )
            yield Said(f"{BEHIND}/{one.name}/{operation}", BEHIND, sentence, _processes(ranks))


def _lagging(before: Communicator | None, now: Communicator, operation: str) -> Iterator[Launched]:
    """Yield the groups of ranks that have not moved, and were behind others in both replies."""
    if before is None:
        return
    then = [group for group in before.launched if group.operation == operation]
    newest = [group for group in now.launched if group.operation == operation]
    most_then, most = (max((group.count for group in groups), default=0) for groups in (then, newest))
    for group in newest:
        same = next((one for one in then if one.count == group.count), None)
        if same is None or group.count >= most or group.count >= most_then:
            continue
        stayed = tuple(rank for rank in group.ranks if rank in same.ranks)
        if group.ranks and stayed:
            yield Launched(operation, group.count, len(stayed), stayed)
        elif not group.ranks and same.number == group.number:
            yield group


def _ranks(ranks: Sequence[RasRank]) -> str:
    names = ", ".join(str(one.rank) for one in ranks[:_NAMED])
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {names}{more}"


def _processes(ranks: Sequence[RasRank]) -> str:
    return ", ".join(
        f"rank {one.rank}: process {one.pid} on {one.host}" for one in ranks[:_NAMED] if one.pid is not None
    )
