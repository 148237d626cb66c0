"""Cycles of waits in one scan: confirmed before they are reported.

A scan reads first where the threads are, and then, from memory and descriptors, who holds what they wait for. On a busy
machine a thread can leave its wait between the two, take a lock, and wait again: put together, that looks like a
deadlock. Each thread on a cycle is therefore looked at once more after all has been read.

Invariants:
    proc_cycles.R1. A cycle of waits is reported only if none of its threads has run since it was sampled, or is about
        to: then all of them waited at the same moment, and what they hold is theirs, for only they could have given
        it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livedbg.model import EdgeKey, EdgeKind

__all__ = ["to_confirm"]


def to_confirm(edges: Iterable[EdgeKey], waiting: Mapping[str, Iterable[str]]) -> set[str]:
    """The threads that are on a cycle of waits, or wait for one.

    Args:
        edges: who waits for what, and who holds what.
        waiting: process -> its threads that wait: any of them may act for it.
    """
    ahead: dict[str, set[str]] = {}
    for kind, source, target in edges:
        if kind is EdgeKind.WAITS_FOR:
            ahead.setdefault(source, set()).add(target)
        elif kind is EdgeKind.HOLDS:
            ahead.setdefault(target, set()).add(source)
    for process, threads in waiting.items():
        ahead.setdefault(process, set()).update(threads)
    behind: dict[str, list[str]] = {}
    for node, blockers in ahead.items():
        for blocker in blockers:
            behind.setdefault(blocker, []).append(node)
    count = {node: len(blockers) for node, blockers in ahead.items()}
    free = [node for node in behind if not count.get(node)] + [node for node, left in count.items() if not left]
    while free:
        for node in behind.pop(free.pop(), ()):
            count[node] -= 1
            if not count[node]:
                free.append(node)
    return {node for node, left in count.items() if left and node.startswith("thread:")}
