"""The ranks panel: state, progress and place of each rank; equal ones merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from livedbg.analysis.ranks import Rank, RankState, ranks_of
from livedbg.model import ids
from livedbg.panels.base import Key, Led
from livedbg.panels.cells import width_of
from livedbg.panels.draw_context import DrawContext, Mark, exit_mark, thread_mark
from livedbg.panels.table import SORT_KEY, Cell, Column, Rows, TablePanel
from livedbg.panels.verdict import line_first
from livedbg.text.quantities import count, elapsed, percent
from livedbg.text.wording import many, spans
from livedbg.themes import Role

_MERGED_FROM: Final = 16
"""From so many ranks on, equal ones are one row unless the user asks for all."""

_SAMPLED: Final = 16
"""Ranks of one row whose CPU time is looked at."""

_MISSING: Final = Mark("stop", "missing", Role.BAD, 0)
_STOPPED: Final = Mark("stop", "stopped", Role.BAD, 0)
_WAITS: Final = Mark("wait", "waits", Role.WAIT, 3)
_UNKNOWN: Final = Mark("unknown", "unknown", Role.DIM, 5)
_MERGE_KEY: Final = Key("m", "m", "merge", "one row for ranks in the same state and place, or one a rank")
_OPEN_KEY: Final = Key("enter", "Enter", "open", "threads and stack of the rank")


@dataclass(frozen=True, slots=True)
class _RankRows(Rows):
    ranks: Mapping[str, Rank] = field(default_factory=dict)


class RanksPanel(TablePanel, scope="ranks"):
    """Every rank, or every class of equal ones."""

    LABEL = "Ranks"
    HELP = (
        "The ranks of a job. A rank is missing when others wait for it in a task that it has not begun; it waits when"
        " it is in such a task itself. NEWEST is the number of the newest task that it has begun in each group of"
        " ranks, BEHIND by how many another rank is ahead, AT the line of your own code, SINCE for how long it has been"
        " there. CPU is the recent share of one core, in rows of several ranks the mean of 16 of them. From 16 ranks"
        " on, those in the same state and place are one row."
    )
    COLUMNS = (
        Column("STATE", 9, keep=10, sort="state"),
        Column("RANK", 4, keep=10, sort="rank", align="right"),
        Column("PID", 3, keep=4, align="right"),
        Column("NEWEST", 6, stretch=1, keep=7),
        Column("BEHIND", 7, keep=8, sort="behind", align="right"),
        Column("AT", 18, stretch=2, keep=9),
        Column("SINCE", 9, keep=6, sort="since", align="right"),
        Column("CPU", 5, keep=3, align="right"),
    )
    SORTS = ("state", "rank", "behind", "since")
    KEYS = (_OPEN_KEY, SORT_KEY, _MERGE_KEY)

    def __init__(self) -> None:
        super().__init__()
        self.merged: bool | None = None
        self._ranks: Mapping[str, Rank] = {}

    def source(self, context: DrawContext) -> object:
        shot = context.snapshot
        tables = (shot.processes, shot.threads, shot.activity, shot.stacks, shot.counters, shot.waits)
        return (*map(id, tables), context.diagnosis.verdict.roots, self.merged)

    def size_of(self, context: DrawContext) -> int:
        """Return the number of threads, since the wait of each is evaluated."""
        return len(context.snapshot.threads)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Filter, sort and merge; count the states for the title."""
        ranks = ranks_of(context.snapshot, context.diagnosis)
        words = [self._mark(context, rank).word for rank in ranks]
        title = "  ".join(f"{count(words.count(word))} {word}" for word in dict.fromkeys(sorted(words)))
        merged = len(ranks) >= _MERGED_FROM if self.merged is None else self.merged
        classes: dict[object, list[Rank]] = {}
        for rank in ranks:
            place = line_first(context, rank.thread)
            if needle in f"{rank.number} {rank.process.pid} {self._mark(context, rank).word} {place}".lower():
                same = (rank.state, self._mark(context, rank).word, place) if merged else rank.process.id
                classes.setdefault(same, []).append(rank)
        order = {"state": _by_state, "behind": _by_behind, "rank": _by_rank}.get(sort)
        rows = [sorted(members, key=order or _by_rank) for members in classes.values()]
        if order is not None:
            rows.sort(key=lambda members: order(members[0]))
        else:
            rows.sort(key=lambda members: (-(self._age(context, members) or -1), _by_rank(members[0])))
        members = {one[0].process.id: tuple(rank.process.id for rank in one) for one in rows}
        shown = sum(map(len, rows))
        note = f"{count(shown)} ranks in {many(len(rows), 'row')} (m: all)" if len(rows) < shown else ""
        return _RankRows(list(members), len(ranks), title, members, note, {rank.process.id: rank for rank in ranks})

    def set_rows(self, rows: Rows) -> None:
        """Show these rows, with columns only as wide as needed."""
        self._ranks = rows.ranks if isinstance(rows, _RankRows) else {}
        wanted = {"RANK": 4, "PID": 3, "NEWEST": 6}
        for row in rows.order[:100]:
            wanted["RANK"] = max(wanted["RANK"], min(width_of(self._numbers(rows.of(row))), 16))
            newest = _newest([self._ranks[one] for one in rows.of(row)])
            wanted["NEWEST"] = max(wanted["NEWEST"], min(width_of(newest), 18))
            wanted["PID"] = max(wanted["PID"], width_of(self._pids(rows.of(row))))
        self.columns = tuple(replace(one, width=wanted.get(one.title, one.width)) for one in self.COLUMNS)
        super().set_rows(rows)

    def cells(self, identity: str) -> Sequence[Cell]:
        context, ink = self.context, self.context.ink
        rank = self._ranks.get(identity)
        if rank is None:
            return [Cell("")] * len(self.COLUMNS)
        members = self.rows.of(identity)
        ranks = [self._ranks[one] for one in members]
        mark, dim = self._mark(context, rank), ink.style(Role.DIM)
        first = rank.state is RankState.MISSING
        share = _mean([self._share(context, one) for one in ranks[:_SAMPLED]])
        behind = max(one.behind for one in ranks)
        return (
            Cell(f"{mark.sign(context.glyphs)} {mark.word}", ink.style(mark.role, bold=first)),
            Cell(self._numbers(members), ink.style(Role.TEXT, bold=first)),
            Cell(self._pids(members), dim),
            Cell(_newest(ranks)),
            Cell(count(behind) if behind else "", ink.style(Role.WARN, bold=True)),
            Cell(line_first(context, rank.thread)),
            Cell(elapsed(self._age(context, ranks))),
            Cell(percent(share), ink.style(Role.GOOD if share and share >= 0.05 else Role.FAINT)),
        )

    def placeholder(self) -> str:
        return "No rank matches the filter." if self.needle else "No process has a rank."

    def entity(self, index: int) -> str | None:
        """Return the thread that shows where the rank is: other panels follow to it."""
        row = super().entity(index)
        rank = self._ranks.get(row or "")
        return rank.thread or row if rank is not None else row

    def _row(self, identity: str) -> int | None:
        return super()._row(ids.process_of(identity) or identity)

    def action_open(self) -> None:
        """Go to the threads of the rank."""
        entity = self.entity(self.cursor)
        if entity is not None and entity in self.context.snapshot.threads:
            self.post_message(Led("threads", entity))
        else:
            super().action_open()

    def action_merge(self) -> None:
        self.merged = not (self.rows.total >= _MERGED_FROM if self.merged is None else self.merged)
        self.rearrange()

    @staticmethod
    def _mark(context: DrawContext, rank: Rank) -> Mark:
        thread = context.snapshot.threads.get(rank.thread)
        marks = {RankState.MISSING: _MISSING, RankState.STOPPED: _STOPPED, RankState.WAITS: _WAITS}
        if rank.state is RankState.ENDED:
            return exit_mark(rank.process.exit_status)
        return marks.get(rank.state) or (thread_mark(thread) if thread is not None else _UNKNOWN)

    @staticmethod
    def _age(context: DrawContext, ranks: Sequence[Rank]) -> int | None:
        return max((age for one in ranks if (age := context.names.age_ns(one.thread)) is not None), default=None)

    @staticmethod
    def _share(context: DrawContext, rank: Rank) -> float | None:
        shares = [share for one in rank.threads if (share := context.names.cpu_share(one)) is not None]
        return sum(shares) if shares else None

    def _numbers(self, members: Sequence[str]) -> str:
        return spans(self._ranks[one].number for one in members)

    def _pids(self, members: Sequence[str]) -> str:
        more = f" +{len(members) - 1}" if len(members) > 1 else ""
        return f"{self._ranks[members[0]].process.pid}{more}"


def _by_state(rank: Rank) -> tuple[int, ...]:
    """Sort absent and slow ranks first; a lead of 1 is ignored, since it alternates in a working job."""
    state = rank.state if rank.state < RankState.GOES else RankState.GOES
    return (state, -rank.behind if rank.behind > 1 else 0, rank.number)


def _by_behind(rank: Rank) -> tuple[int, ...]:
    return (-rank.behind, rank.number)


def _by_rank(rank: Rank) -> tuple[int, ...]:
    return (rank.number,)


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


def _newest(ranks: Sequence[Rank]) -> str:
    """Return `dp #5, all #2`; `dp #4-7` for several ranks."""
    numbers: dict[str, list[int]] = {}
    for rank in ranks:
        for group, number in rank.reached:
            numbers.setdefault(group, []).append(number)
    spread = ((group, min(found), max(found)) for group, found in numbers.items())
    return ", ".join(f"{group} #{low}{f'-{high}' if high > low else ''}" for group, low, high in spread)
