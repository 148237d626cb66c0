"""The threads of all target processes: state, CPU share, what each waits for, equal stacks together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from livedbg.model import Stack, Thread
from livedbg.model.intents import Glance, WantStacks
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import width_of
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.keys import Key, bindings
from livedbg.panels.marks import thread_mark
from livedbg.panels.messages import Asked
from livedbg.panels.table import Cell, Column, Rows, TablePanel, layout
from livedbg.text.quantities import count, elapsed, percent
from livedbg.themes import Role

__all__ = ["STACKS_KEY", "ThreadsPanel", "shape", "want_stacks"]

STACKS_KEY = Key("s", "s", "stacks", "take stacks of the selected process now (no stop)")
_THREAD_KEYS = (
    STACKS_KEY,
    Key("S", "S", "glance", "glance: stop each running thread for about 0.1 ms to take its stack"),
    Key("o", "o", "sort", "sort by the next column"),
    Key("m", "m", "merge", "group threads with equal stacks, or ungroup them"),
)

_MEASURED: Final = 2000
"""Rows that decide how wide columns are."""

Shape = tuple[tuple[str, str | None, int | None], ...]


class ThreadsPanel(TablePanel):
    """Every live thread."""

    LABEL = "Threads"
    HELP = (
        "The threads of the target. CPU is the recent share of one core; WAITS FOR what the thread is blocked in; "
        "SINCE for how long, without using CPU time; BEHIND how many threads and tasks wait for it."
    )
    COLUMNS = (
        Column("STATE", 9, keep=10, sort="state"),
        Column("TID", 3, keep=9, sort="tid", align="right"),
        Column("NAME", 4, keep=10, sort="name"),
        Column("CPU", 5, keep=6, sort="cpu", align="right"),
        Column("WAITS FOR", 15, stretch=1, keep=8),
        Column("SINCE", 8, keep=7, sort="since", align="right"),
        Column("BEHIND", 7, keep=5, sort="behind", align="right"),
    )
    SORTS = ("state", "behind", "since", "cpu", "name", "tid")
    KEYS: ClassVar[tuple[Key, ...]] = _THREAD_KEYS
    BINDINGS = bindings("threads", _THREAD_KEYS)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.merged = False
        self.members: dict[str, int] = {}
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
        found.sort(key=_order(context, sort))
        if self.merged:
            groups: dict[object, list[Thread]] = defaultdict(list)
            for thread in found:
                stack = context.snapshot.stacks.get(thread.id)
                groups[(thread.state, shape(stack) if stack else thread.id)].append(thread)
            found = [group[0] for group in groups.values()]
            self.members = {group[0].id: len(group) for group in groups.values()}
        else:
            self.members = {}
        return Rows([thread.id for thread in found], len(shown), title)

    def set_rows(self, rows: Rows) -> None:
        """Show these rows; numbers and names take no more room than they need."""
        threads = self.context.snapshot.threads
        found = [threads[identity] for identity in rows.order[:_MEASURED] if identity in threads]
        tid = len(str(max((thread.tid for thread in found), default=0)))
        name = max(map(width_of, {thread.title for thread in found}), default=0)
        more = len(f"×{max(self.members.values(), default=1)} ") if self.merged else 0
        wanted = {"TID": max(tid, 3), "NAME": min(max(name + more, 4), 18)}
        self._columns = tuple(replace(c, width=wanted.get(c.title, c.width)) for c in self.COLUMNS)
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
        share = context.names.cpu_share(identity)
        behind = context.diagnosis.graph.behind(identity)
        more = self.members.get(identity, 1)
        name = thread.title if more == 1 else f"{context.glyphs.times}{more} {thread.name}"
        root = identity in context.diagnosis.verdict.roots
        return (
            Cell(f"{mark.sign(context.glyphs)} {mark.word}", ink.style(mark.role)),
            Cell(str(thread.tid), dim),
            Cell(name, ink.style(Role.TEXT, bold=root)),
            Cell(percent(share), ink.style(Role.GOOD if share and share >= 0.05 else Role.FAINT)),
            Cell(waits_for(context, thread)),
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

    def action_merge(self) -> None:
        """Merge equal stacks, or not."""
        self.merged = not self.merged
        self.rearrange()


def want_stacks(panel: LinePanel, thread: str | None) -> None:
    """Ask for the stacks of the process of `thread`."""
    known = panel.context.snapshot.threads.get(thread or "")
    if known is not None:
        label = panel.context.names.label(known.process)
        panel.post_message(Asked(WantStacks(process=known.process), f"Taking stacks of {label} without a stop"))


def shape(stack: Stack) -> Shape:
    """What makes two stacks equal."""
    return tuple((frame.function, frame.file, frame.line) for frame in stack.frames)


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
    return (
        f"{thread.tid} {thread.title} {thread.state} {context.names.waits(thread)} {waits_for(context, thread)}".lower()
    )


def _order(context: DrawContext, sort: str) -> Callable[[Thread], tuple[object, ...]]:
    roots = {entity: place for place, entity in enumerate(context.diagnosis.verdict.roots)}
    names, behind = context.names, context.diagnosis.graph.behind

    def by_state(thread: Thread) -> tuple[object, ...]:
        first = roots.get(thread.id, len(roots))
        return (first, thread_mark(thread).order, thread.process, thread.tid)

    orders: dict[str, Callable[[Thread], tuple[object, ...]]] = {
        "state": by_state,
        "behind": lambda thread: (-behind(thread.id), *by_state(thread)),
        "since": lambda thread: (-(names.age_ns(thread.id) or -1), thread.tid),
        "cpu": lambda thread: (-(names.cpu_share(thread.id) or 0.0), thread.tid),
        "name": lambda thread: (thread.title, thread.tid),
        "tid": lambda thread: (thread.process, thread.tid),
    }
    return orders[sort]
