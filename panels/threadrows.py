"""The rows of a table of threads: which come first, and which are one row because their stacks are equal.

Invariants:
    threadrows.W1. The order by state depends on nothing that a working program changes from sample to sample: rows keep
        their place while only numbers change.
    threadrows.W2. Every thread is in exactly one row, and a root of the verdict shares no row with one that is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from livedbg.model import Stack, Thread, ThreadState
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.marks import thread_mark

MERGED_FROM: Final = 31
"""From so many threads on, those with equal stacks are one row unless the user asks for all."""

_LASTING_NS: Final = 1_000_000_000
"""A wait of so long is one that lasts; threads of a working program take locks for less."""

_CPU_STEPS: Final = 20
"""Shares of a core are told apart in so many steps, so that rows do not swap for a percent."""

Order = Callable[[Thread], tuple[object, ...]]
Shape = tuple[tuple[str, str | None, int | None], ...]


def shape(stack: Stack) -> Shape:
    """What makes two stacks equal."""
    return tuple((frame.function, frame.file, frame.line) for frame in stack.frames)


def order_by(context: DrawContext, threads: Sequence[Thread], sort: str, *, merged: bool = False) -> Order:
    """The key that sorts threads.

    Args:
        context: the state.
        threads: all threads that are to be sorted.
        sort: `state` is by process: the one of the verdict's root first, and in it the root, then the blocked threads.
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
    """First thread of each row -> all threads of the row, in the order of `threads`.

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
    """Process -> its place among the others: root, then with blocked threads, then the rest; then by rank and pid."""
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
    """Among the verdict's roots, and whether it is blocked."""
    roots = context.diagnosis.verdict.roots
    first = roots.index(thread.id) if thread.id in roots else len(roots)
    return first, 0 if first < len(roots) or _blocked(context, thread) else 1


def _blocked(context: DrawContext, thread: Thread) -> bool:
    """Whether it has waited for a while for something that is known, or is held back from outside."""
    if thread.exited:
        return False
    if thread_mark(thread).order == 0:
        return True
    if thread.state is not ThreadState.WAITING or not context.diagnosis.graph.waits_of(thread.id):
        return False
    waited = context.names.age_ns(thread.id)
    return waited is None or waited >= _LASTING_NS
