"""The threads panel: threads of all target processes, with equal stacks merged.

Invariants:
    threadrows.W1. The order by state depends on nothing that a working program changes from sample to sample: rows keep
        their place while only numbers change.
    threadrows.W2. Every thread is in exactly one row, and a root of the verdict shares no row with a thread that isn't
        one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from livedbg.model import Process, Stack, Thread, ThreadState
from livedbg.model.intents import Glance, WantStacks
from livedbg.panels.base import Asked, FunctionsAsked, Key, LinePanel
from livedbg.panels.cells import width_of
from livedbg.panels.draw_context import DrawContext, thread_mark
from livedbg.panels.measured import FUNCTIONS_KEY
from livedbg.panels.table import Cell, Column, Rows, TablePanel
from livedbg.panels.verdict import at, line_first
from livedbg.text.quantities import count, elapsed, percent
from livedbg.text.wording import many, spans
from livedbg.themes import Role

MERGED_FROM: Final = 31
"""From so many threads on, those with equal stacks are one row unless the user asks for all."""

_LASTING_NS: Final = 1_000_000_000
"""A wait of so long is one that lasts; threads of a working program take locks for less."""

_CPU_STEPS: Final = 20
"""Shares of a core are told apart in so many steps, so that rows do not swap for a percent."""

Order = Callable[[Thread], tuple[object, ...]]
Shape = tuple[tuple[str, str | None, int | None], ...]


def shape(stack: Stack) -> Shape:
    """Return a key that is equal for equal stacks."""
    return tuple((frame.function, frame.file, frame.line) for frame in stack.frames)


def order_by(context: DrawContext, threads: Sequence[Thread], sort: str, *, merged: bool = False) -> Order:
    """Return the sort key of threads.

    Args:
        threads: all threads to be sorted.
        sort: `state` sorts by process: that of the verdict's root first, and in it the root, then the blocked threads.
        merged: rows may be of several processes: the root, then all blocked threads, then the rest.
    """
    own = {thread.id: _place(context, thread) for thread in threads}
    places = _places(context, threads, own)
    names, behind = context.names, context.diagnosis.graph.behind

    def by_state(thread: Thread) -> tuple[object, ...]:
        process, place = places[thread.process], own[thread.id]
        return (*place, *process, thread.tid) if merged else (*process, *place, thread.tid)

    orders: dict[str, Order] = {
        "state": by_state,
        "behind": lambda thread: (-behind(thread.id), *by_state(thread)),
        "since": lambda thread: (-(names.age_ns(thread.id) or -1), thread.tid),
        "cpu": lambda thread: (-round((names.cpu_share(thread.id) or 0.0) * _CPU_STEPS), *by_state(thread)),
        "name": lambda thread: (thread.title, *by_state(thread)),
        "tid": lambda thread: (thread.process, thread.tid),
    }
    return orders[sort]


def merged_rows(context: DrawContext, threads: Sequence[Thread]) -> Mapping[str, tuple[str, ...]]:
    """Map the first thread of each row to all threads of the row, in the order of `threads`.

    A thread whose stack is not known is a row by itself.
    """
    roots = context.diagnosis.verdict.roots
    groups: dict[object, list[str]] = defaultdict(list)
    for thread in threads:
        stack = context.snapshot.stacks.get(thread.id)
        known = stack is not None and stack.frames
        groups[(thread.id in roots, shape(stack) if stack is not None and known else thread.id)].append(thread.id)
    return {members[0]: tuple(members) for members in groups.values()}


def _places(
    context: DrawContext, threads: Sequence[Thread], own: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[object, ...]]:
    """Map processes to sort keys: root, then with blocked threads, then the rest; then by rank and pid."""
    best: dict[str, tuple[int, int]] = {}
    for thread in threads:
        place = own[thread.id]
        known = best.get(thread.process)
        best[thread.process] = place if known is None else min(known, place)
    roots = {entity: place for place, entity in enumerate(context.diagnosis.verdict.roots)}
    found: dict[str, tuple[object, ...]] = {}
    for name, (root, kind) in best.items():
        process = context.snapshot.processes.get(name)
        rank = process.rank if process is not None and process.rank is not None else -1
        pid = process.pid if process is not None else 0
        found[name] = (min(root, roots.get(name, root)), kind, rank, pid, name)
    return found


def _place(context: DrawContext, thread: Thread) -> tuple[int, int]:
    """Return a sort key: position among the verdict's roots, and whether it is blocked."""
    roots = context.diagnosis.verdict.roots
    first = roots.index(thread.id) if thread.id in roots else len(roots)
    return first, 0 if first < len(roots) or _blocked(context, thread) else 1


def _blocked(context: DrawContext, thread: Thread) -> bool:
    """Return whether it has waited for a while for something known, or is stopped from outside."""
    if thread.exited:
        return False
    if thread_mark(thread).order == 0:
        return True
    if thread.state is not ThreadState.WAITING or not context.diagnosis.graph.waits_of(thread.id):
        return False
    waited = context.names.age_ns(thread.id)
    return waited is None or waited >= _LASTING_NS


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
    """Return the columns, as wide as needed for these rows, and 0 if they have no content.

    PID and RANK are shown if the rows are of more than one process.
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
    """Return `4711`, or `4711 +3` for four processes."""
    found = list(dict.fromkeys(process.pid for process in _processes(context, members)))
    return f"{found[0]}{f' +{len(found) - 1}' if len(found) > 1 else ''}" if found else ""


def ranks(context: DrawContext, members: Iterable[str]) -> str:
    """Return `3`, or `0-2,5` for four processes."""
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

_COUNTED: Final = 64
"""Threads of a merged row among which that with the most waiters is looked for."""


class ThreadsPanel(TablePanel, scope="threads"):
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
    KEYS = (
        STACKS_KEY,
        Key("S", "S", "glance", "glance: stop each running thread for about 0.1 ms to take its stack (asks first)"),
        Key("o", "o", "sort", "sort by the next column"),
        Key("m", "m", "merge", "merge threads with equal stacks, or show all"),
        FUNCTIONS_KEY,
    )

    def __init__(self) -> None:
        super().__init__()
        self.merged: bool | None = None

    def source(self, context: DrawContext) -> object:
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
        return len(context.snapshot.threads)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
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
        """Return whether equal stacks are merged: by the user's choice, else if there are many threads."""
        return threads >= MERGED_FROM if self.merged is None else self.merged

    def set_rows(self, rows: Rows) -> None:
        self.columns = columns_of(self.context, rows)
        super().set_rows(rows)

    def cells(self, identity: str) -> Sequence[Cell]:
        context, ink = self.context, self.context.ink
        thread = context.snapshot.threads.get(identity)
        if thread is None:
            return [Cell("")] * len(self.COLUMNS)
        mark = thread_mark(thread)
        dim = ink.style(Role.DIM)
        members = self.rows.of(identity)
        share = _known_sum(context.names.cpu_share(member) for member in members)
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
        if self.needle:
            return "No thread matches the filter."
        return "No thread was seen." if self.context.snapshot.processes else "No process is observed."

    def action_stacks(self) -> None:
        want_stacks(self, self.entity(self.cursor))

    def action_glance(self) -> None:
        """Request stacks of running threads too."""
        known = self.context.snapshot.threads.get(self.entity(self.cursor) or "")
        if known is not None:
            label = self.context.names.label(known.process)
            self.post_message(
                Asked(Glance(process=known.process), f"Taking stacks of {label}; running threads are stopped briefly")
            )

    def action_functions(self) -> None:
        self.post_message(FunctionsAsked())

    def action_merge(self) -> None:
        self.merged = not self.merges(self.rows.total)
        self.rearrange()


def want_stacks(panel: LinePanel, thread: str | None) -> None:
    """Request the stacks of a thread's process."""
    known = panel.context.snapshot.threads.get(thread or "")
    if known is not None:
        label = panel.context.names.label(known.process)
        panel.post_message(Asked(WantStacks(process=known.process), f"Taking stacks of {label} without a stop"))


def waits_for(context: DrawContext, thread: Thread) -> str:
    """Return the entity that a thread waits for, or else its call."""
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


def _known_sum(shares: Iterable[float | None]) -> float | None:
    """Return the sum of the known shares; None if none is known."""
    known = [share for share in shares if share is not None]
    return sum(known) if known else None
