"""Threads of a process that may signal a semaphore: those that run the user's code and don't wait for one.

Workers of the runtime signal what the queue says, and pools of mathematical libraries signal nothing. What is known of
a thread is its name and its stack; one without a stack may do anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from livedbg.model import EdgeKind, Stack, Thread
from livedbg.model.snapshot import Snapshot

_OWN: Final = re.compile(r"iree-(?:worker|pro)|llvmpipe-")
_INSIDE: Final = re.compile(
    r"(?:lib(?:c|pthread|m|gomp|iomp5|omp|vulkan\w{0,1000}|LLVM\w{0,1000}|drm\w{0,1000}|IREE\w{0,1000}|iree\w{0,1000}|gcc_s|stdc\+\+|\w{0,1000}openblas\w{0,1000})"
    r"[.-]|ld-linux|iree-|_runtime\.cpython|\[|0x)"
)


def is_own(thread: Thread) -> bool:
    """Whether a thread is one of the runtime's or the driver's own."""
    return is_own_name(thread.name)


def is_own_name(name: str) -> bool:
    """Return whether a thread name is one of the runtime or the driver."""
    return _OWN.match(name) is not None


def is_worker(thread: Thread) -> bool:
    """Whether it is a worker of a local-task device."""
    return thread.name.startswith("iree-worker")


class Outsiders(NamedTuple):
    """Threads that may signal a semaphore.

    Attributes:
        threads: their identifiers.
        names: in a user's words, as far as they are known yet.
        wait: each of them waits for work that is in flight: what that work does decides.
    """

    threads: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    wait: bool = False


def outsiders_of(process: str, stuck: Collection[str], waiting: Collection[str], snapshot: Snapshot) -> Outsiders:
    """Those of a process.

    Args:
        process: the process.
        stuck: threads that wait for a value that no work in flight will reach.
        waiting: threads that wait for a value that work in flight will reach, if it ends.
        snapshot: the state.
    """
    behind = _behind(stuck, snapshot)
    found = [
        thread
        for thread in snapshot.threads.values()
        if thread.process == process
        and not thread.exited
        and thread.id not in behind
        and not is_own(thread)
        and not _inside(snapshot.stacks.get(thread.id))
    ]
    waits = _behind(waiting, snapshot)
    names = tuple(thread.title or str(thread.tid) for thread in found)
    return Outsiders(tuple(one.id for one in found), names, bool(found) and all(one.id in waits for one in found))


def _behind(waiting: Collection[str], snapshot: Snapshot) -> set[str]:
    """The waiting threads, and those that wait for one of them: to join it, or for a lock that it holds."""
    holders: dict[str, set[str]] = {}
    waits: dict[str, set[str]] = {}
    for edge in snapshot.waits.values():
        if edge.kind is EdgeKind.HOLDS:
            holders.setdefault(edge.target, set()).add(edge.source)
        elif edge.kind is EdgeKind.WAITS_FOR and edge.source.startswith("thread:") and not edge.timed:
            waits.setdefault(edge.source, set()).add(edge.target)
    behind, before = set(waiting), -1
    while len(behind) > before:
        before = len(behind)
        behind |= {
            thread
            for thread, targets in waits.items()
            if any(target in behind or (holders.get(target) or {""}) <= behind for target in targets)
        }
    return behind


def _inside(stack: Stack | None) -> bool:
    """Whether all of a stack is code that signals nothing by itself."""
    if stack is None or not stack.frames:
        return False
    return all(frame.language == "native" and _INSIDE.match(frame.module or "0x") for frame in stack.frames)
