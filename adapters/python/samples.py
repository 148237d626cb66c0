"""Values that one sample of a Python process contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.python.held import Held
from livedbg.cpython.objects import LockObject
from livedbg.cpython.threads import Gil, PyThread
from livedbg.model.snapshot import Snapshot


class GilWait(NamedTuple):
    """A thread's wait for the GIL."""

    tid: int
    gil: Gil


class LockWait(NamedTuple):
    """A thread's wait for a lock.

    Attributes:
        where: the innermost frame outside the library.
        owner: None if not known.
        orphan: an RLock whose owner is no thread of this process.
    """

    tid: int
    lock: LockObject
    where: str
    timed: bool
    owner: Held | None
    orphan: bool = False


class NotifyWait(NamedTuple):
    """A thread's wait to be notified (Condition.wait, Queue.get, Event.wait, …).

    Attributes:
        address: of the Condition or queue.
        label: the user's call, e.g. `Queue.get`.
        word: semaphore that it sleeps on.
        of: address of what that call is made on.
    """

    tid: int
    address: int
    label: str
    where: str
    timed: bool
    word: int
    of: int = 0


class JoinWait(NamedTuple):
    """A thread's wait for another one to end."""

    tid: int
    target: int
    where: str
    timed: bool


class Sample(Struct, frozen=True):
    """One sample of a process: threads by tid, GILs by address, and the tids of their holders."""

    threads: Mapping[int, PyThread] = field(default_factory=dict)
    gils: Mapping[int, Gil] = field(default_factory=dict)
    holders: Mapping[int, int] = field(default_factory=dict)
    gil_waits: tuple[GilWait, ...] = ()
    lock_waits: tuple[LockWait, ...] = ()
    notify_waits: tuple[NotifyWait, ...] = ()
    join_waits: tuple[JoinWait, ...] = ()


_STILL_NS: Final = 1_000_000_000


class Movement(NamedTuple):
    """The movement of one process: when each thread last moved, and threads that samples see still for a while."""

    signature: object
    still: frozenset[str] = frozenset()


UNKNOWN: Final = Movement(None)


def movements(snapshot: Snapshot) -> Mapping[str, Movement]:
    """Return the movement of each process, by its id."""
    looked = snapshot.as_of_looks()
    moved: dict[str, dict[str, int]] = {}
    for thread in snapshot.threads.values():
        if not thread.exited:
            activity = snapshot.activity.get(thread.id)
            moved.setdefault(thread.process, {})[thread.id] = activity.changed_mono_ns if activity else 0
    found: dict[str, Movement] = {}
    for process, threads in moved.items():
        known = snapshot.processes.get(process)
        before_ns = looked.now(known.host if known is not None else None).mono_ns - _STILL_NS
        still = frozenset(name for name, at_ns in threads.items() if at_ns <= before_ns)
        found[process] = Movement(tuple(threads.items()), still)
    return found
