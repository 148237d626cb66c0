"""For how long threads have waited behind something, by the kernel's clock."""

from __future__ import annotations

from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import waited_ns
from livedbg.model import Thread


def longest_wait(entity: str, state: RuleInput) -> tuple[Thread, int] | None:
    """The thread that has waited longest of those that wait for something, directly or through others.

    One whose wait has a time limit of its own wakes by itself, and does not count.
    """
    todo, seen = [entity], set[str]()
    found: list[tuple[int, str, Thread]] = []
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        thread = state.snapshot.threads.get(one)
        waited = waited_ns(thread, state.snapshot) if thread is not None and not thread.timed else None
        if thread is not None and waited is not None:
            found.append((waited, thread.id, thread))
        todo += state.graph.waiters_of(one)
    waited_most = max(found, default=None)
    return (waited_most[2], waited_most[0]) if waited_most is not None else None
