"""The threads of all target processes: state, CPU share, what each waits for, equal stacks together.

The columns of a table of threads: which there are, how wide they are, and what processes a row names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from livedbg.model import Process, Thread
from livedbg.model.intents import Glance, WantStacks
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import width_of
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.functions import FUNCTIONS_KEY
from livedbg.panels.keys import Key, bindings
from livedbg.panels.marks import thread_mark
from livedbg.panels.messages import Asked, FunctionsAsked
from livedbg.panels.places import at, line_first
from livedbg.panels.table import Cell, Column, Rows, TablePanel, layout
from livedbg.panels.threadrows import MERGED_FROM, merged_rows, order_by
from livedbg.text.quantities import count, elapsed, percent
from livedbg.text.wording import many, spans
from livedbg.themes import Role

THREAD_COLUMNS: Final = (
    Column("STATE", 9, keep=10, sort="state"),
    Column("PID", 3, keep=4, align="right"),
    Column("RANK", 4, keep=9, align="right"),
    Column("TID", 3, keep=9, sort="tid", align="right"),
    Column("NAME", 4, keep=10, sort="name"),
    Column("CPU", 5, keep=4, sort="cpu", align="right"),
    Column("DOES", 11, keep=2),
    Column("WAITS FOR", 13, stretch=1, keep=8),
    Column("AT", 16, stretch=1, keep=6),
    Column("SINCE", 9, keep=7, sort="since", align="right"),
    Column("BEHIND", 7, keep=5, sort="behind", align="right"),
)

_MEASURED: Final = 2000
"""Rows that decide how wide columns are."""

_WIDEST: Final = {"PID": 12, "RANK": 8, "TID": 10, "NAME": 18}
_NAMED: Final = {"PID": 9, "TID": 3}
"""What distinguishes processes is kept longer than the number of a thread, where there are several."""


def columns_of(context: DrawContext, rows: Rows) -> tuple[Column, ...]:
    """The columns for these rows: numbers and names take no more room than they need, 0 cells where they say nothing.

    PID and RANK are there where the rows are of more than one process.
    """
    threads, processes = context.snapshot.threads, context.snapshot.processes
    found = {thread.process for row in rows.order for one in rows.of(row) if (thread := threads.get(one))}
    ranked = any(known.rank is not None for name in found if (known := processes.get(name)))
    shown = [(thread, rows.of(row)) for row in rows.order[:_MEASURED] if (thread := threads.get(row))]
    wide = {
        "TID": _widest(str(thread.tid) for thread, _members in shown),
        "NAME": _widest(thread.title for thread, _members in shown),
        "PID": _widest(pids(context, members) for _thread, members in shown) if len(found) > 1 else 0,
        "RANK": _widest(ranks(context, members) for _thread, members in shown) if len(found) > 1 and ranked else 0,
    }
    wanted = {name: max(min(cells, _WIDEST[name]), len(name)) if cells else 0 for name, cells in wide.items()}
    many = max((len(members) for _thread, members in shown), default=1)
    wanted["NAME"] = max(min(wide["NAME"] + (len(f"×{many} ") if many > 1 else 0), 18), 4)
    keep = ({**_NAMED, "PID": 4} if ranked else _NAMED) if len(found) > 1 else {}
    return tuple(replace(c, width=wanted.get(c.title, c.width), keep=keep.get(c.title, c.keep)) for c in THREAD_COLUMNS)


def pids(context: DrawContext, members: Iterable[str]) -> str:
    """`4711`, `4711 +3` for four processes."""
    found = list(dict.fromkeys(process.pid for process in _processes(context, members)))
    return f"{found[0]}{f' +{len(found) - 1}' if len(found) > 1 else ''}" if found else ""


def ranks(context: DrawContext, members: Iterable[str]) -> str:
    """`3`, `0-2,5` for four processes."""
    return spans(process.rank for process in _processes(context, members) if process.rank is not None)


def _processes(context: DrawContext, members: Iterable[str]) -> Iterator[Process]:
    shot = context.snapshot
    for name in dict.fromkeys(thread.process for one in members if (thread := shot.threads.get(one))):
        known = shot.processes.get(name)
        if known is not None:
            yield known


def _widest(texts: Iterable[str]) -> int:
    return max(map(width_of, set(texts)), default=0)


STACKS_KEY = Key("s", "s", "stacks", "take stacks of the selected process now (no stop)")
_THREAD_KEYS = (
    STACKS_KEY,
    Key("S", "S", "glance", "glance: stop each running thread for about 0.1 ms to take its stack (asks first)"),
    Key("o", "o", "sort", "sort by the next column"),
    Key("m", "m", "merge", "merge threads with equal stacks, or show all"),
    FUNCTIONS_KEY,
)

_COUNTED: Final = 64
"""Threads of a merged row among which that with the most waiters is looked for."""


class ThreadsPanel(TablePanel):
    """Every live thread."""

    LABEL = "Threads"
    HELP = (
        "The threads of the target. CPU is the recent share of one core; DOES what the verdict makes of the thread "
        "(blocked, polling, computing, progressing, …), where there is room; WAITS FOR what it is blocked in; AT the "
        "function and line of your own code (Enter shows the whole stack); SINCE for how long, without using CPU time; "
        "BEHIND how many threads and tasks wait for it. With several processes there are PID and RANK. More than 30 "
        "threads are merged by equal stacks until `m` shows all. The verdict's root and its process are on top."
    )
    COLUMNS = THREAD_COLUMNS
    SORTS = ("state", "behind", "since", "cpu", "name", "tid")
    KEYS: ClassVar[tuple[Key, ...]] = _THREAD_KEYS
    BINDINGS = bindings("threads", _THREAD_KEYS)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.merged: bool | None = None
        self._columns: tuple[Column, ...] = self.COLUMNS

    def source(self, context: DrawContext) -> object:
        """Threads, processes, stacks when merged, and the roots of the verdict, which come first."""
        shot = context.snapshot
        return (
            id(shot.threads),
            id(shot.processes),
            id(shot.activity),
            id(shot.stacks),
            context.diagnosis.verdict.roots,
            self.merged,
        )

    def size_of(self, context: DrawContext) -> int:
        """All threads."""
        return len(context.snapshot.threads)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Filter, order, merge, count the states for the title."""
        shown = context.snapshot.last_threads()
        words = Counter(thread_mark(thread).word for thread in shown)
        title = "  ".join(f"{count(number)} {word}" for word, number in words.most_common(4))
        found = [thread for thread in shown if not needle or needle in _text(context, thread)]
        merged = self.merges(len(shown))
        found.sort(key=order_by(context, shown, sort, merged=merged))
        if not merged:
            return Rows([thread.id for thread in found], len(shown), title)
        members = merged_rows(context, found)
        less = len(members) < len(found)
        note = f"{count(len(found))} threads in {many(len(members), 'row')} (m: all)" if less else ""
        return Rows(list(members), len(shown), title, members, note)

    def merges(self, threads: int) -> bool:
        """Whether equal stacks of so many threads are one row: as the user asked for, else when there are many."""
        return threads >= MERGED_FROM if self.merged is None else self.merged

    def set_rows(self, rows: Rows) -> None:
        """Show these rows; numbers and names take no more room than they need."""
        self._columns = columns_of(self.context, rows)
        super().set_rows(rows)

    def widths(self, width: int) -> list[int]:
        """See TablePanel."""
        return layout(self._columns, width)

    def cells(self, identity: str) -> Sequence[Cell]:
        """One thread, or several with the same stack."""
        context, ink = self.context, self.context.ink
        thread = context.snapshot.threads.get(identity)
        if thread is None:
            return [Cell("")] * len(self.COLUMNS)
        mark = thread_mark(thread)
        dim = ink.style(Role.DIM)
        members = self.rows.of(identity)
        share = _together(context.names.cpu_share(member) for member in members)
        behind = max(context.diagnosis.graph.behind(member) for member in members[:_COUNTED])
        name = thread.title if len(members) == 1 else f"{context.glyphs.times}{count(len(members))} {thread.title}"
        root = identity in context.diagnosis.verdict.roots
        return (
            Cell(f"{mark.sign(context.glyphs)} {mark.word}", ink.style(mark.role)),
            Cell(pids(context, members), dim),
            Cell(ranks(context, members), ink.style(Role.TEXT, bold=root)),
            Cell(str(thread.tid), dim),
            Cell(name, ink.style(Role.TEXT, bold=root)),
            Cell(percent(share), ink.style(Role.GOOD if share and share >= 0.05 else Role.FAINT)),
            Cell(context.diagnosis.doing(thread)[0], dim),
            Cell(waits_for(context, thread)),
            Cell(line_first(context, thread.id)),
            Cell(elapsed(context.names.age_ns(identity))),
            Cell(count(behind) if behind else "", ink.style(Role.WARN, bold=True)),
        )

    def placeholder(self) -> str:
        """No threads."""
        return "No thread matches the filter." if self.needle else "No process is observed."

    def action_stacks(self) -> None:
        """Ask for stacks."""
        want_stacks(self, self.entity(self.cursor))

    def action_glance(self) -> None:
        """Ask for stacks of running threads too."""
        known = self.context.snapshot.threads.get(self.entity(self.cursor) or "")
        if known is not None:
            label = self.context.names.label(known.process)
            self.post_message(
                Asked(Glance(process=known.process), f"Taking stacks of {label}; running threads are stopped briefly")
            )

    def action_functions(self) -> None:
        """Show which functions take the CPU time."""
        self.post_message(FunctionsAsked())

    def action_merge(self) -> None:
        """Merge equal stacks, or not."""
        self.merged = not self.merges(self.rows.total)
        self.rearrange()


def want_stacks(panel: LinePanel, thread: str | None) -> None:
    """Ask for the stacks of the process of `thread`."""
    known = panel.context.snapshot.threads.get(thread or "")
    if known is not None:
        label = panel.context.names.label(known.process)
        panel.post_message(Asked(WantStacks(process=known.process), f"Taking stacks of {label} without a stop"))


def waits_for(context: DrawContext, thread: Thread) -> str:
    """What a thread waits for: the entity where it is known, else what it sits in."""
    words = context.names.waits(thread)
    edges = context.diagnosis.graph.waits_of(thread.id)
    targets = [edge.target for edge in edges if edge.source == thread.id]
    if not targets:
        return words
    more = f" +{len(targets) - 1}" if len(targets) > 1 else ""
    label = context.names.label(targets[0])
    if words and label in words:
        return words
    return f"{label}{more}" if not words or words in label else f"{label}{more} ({words})"


def _text(context: DrawContext, thread: Thread) -> str:
    waits = f"{context.names.waits(thread)} {waits_for(context, thread)}"
    return f"{thread.tid} {thread.title} {thread.state} {waits} {at(context, thread.id)}".lower()


def _together(shares: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [share for share in shares if share is not None]
    return sum(known) if known else None
