"""What one sample of a Python process found: values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from livedbg.adapters.python.held import Held
from livedbg.cpython.objects import LockObject
from livedbg.cpython.threads import Gil, PyThread


class GilWait(NamedTuple):
    """A thread waits for the GIL."""

    tid: int
    gil: Gil


class LockWait(NamedTuple):
    """A thread waits for a lock.

    Attributes:
        where: the innermost frame that is not the library's.
        owner: who holds it; None when that is not known.
        orphan: it is an RLock whose owner is no thread of this process.
    """

    tid: int
    lock: LockObject
    where: str
    timed: bool
    owner: Held | None
    orphan: bool = False


class NotifyWait(NamedTuple):
    """A thread waits to be notified (Condition.wait, Queue.get, Event.wait, …).

    Attributes:
        address: of the Condition, or of the queue.
        label: what the user called, e.g. `Queue.get`.
        word: semaphore that it sleeps on.
    """

    tid: int
    address: int
    label: str
    where: str
    timed: bool
    word: int


class JoinWait(NamedTuple):
    """A thread waits for another one to end."""

    tid: int
    target: int
    where: str
    timed: bool


class Sample(Struct, frozen=True):
    """What one sample of a process found.

    Attributes:
        threads: by tid (ours).
        gils: by address.
        holders: address of a GIL -> tid of its holder.
    """

    threads: Mapping[int, PyThread] = field(default_factory=dict)
    gils: Mapping[int, Gil] = field(default_factory=dict)
    holders: Mapping[int, int] = field(default_factory=dict)
    gil_waits: tuple[GilWait, ...] = ()
    lock_waits: tuple[LockWait, ...] = ()
    notify_waits: tuple[NotifyWait, ...] = ()
    join_waits: tuple[JoinWait, ...] = ()
