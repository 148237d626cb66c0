"""Waits of threads in printed stacks, by functions of the C library and their arguments; for a DataLoader's batch.

Invariants:
    printed_waits.W1. Only a call that has no time limit is a wait: by its name, or by `abstime=0x0` in its arguments.
        Where neither says so, nothing is said of a wait.
    printed_waits.W3. A function that waits by its name, with the largest number for its time limit, waits without one.
    printed_waits.W2. A thread in a DataLoader (`data/dataloader.py`), where that takes from its workers' queue, waits
        for a batch if all frames below wait or poll: it asks again after each time limit.

Sources: glibc nptl/pthread_cond_wait.c, nptl/sem_waitcommon.c, nptl/futex-internal.c, nptl/pthread_join_common.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_DEEP: Final = 8
"""So many of the innermost frames, at most, are those of a wait."""
_CALLS: Final = lazy_re(
    r"_{0,4}(?:GI_{1,3}|libc_)?(?:(?:futex|pthread|lll|(?:new_|old_)?sem|do_futex)_\w{1,60}|syscall)(?:@\S{1,40})?$"
)
"""Functions of the C library by which a thread waits."""
MUTEX: Final = "for a mutex"
_KINDS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        MUTEX: lazy_re(r"pthread_mutex_"),
        "on a condition variable without a time limit": lazy_re(r"pthread_cond_"),
        "for a read-write lock": lazy_re(r"pthread_rwlock_"),
        "on a semaphore without a time limit": lazy_re(r"_sem_|^sem_"),
        "at a barrier": lazy_re(r"pthread_barrier_"),
        "for the end of a thread": lazy_re(r"join"),
    }
)
_ENDLESS: Final = lazy_re(
    r"(?:cond_wait|sem_wait|mutex_lock|rwlock_(?:rd|wr)lock|barrier_wait|pthread_join)(?:@\S{1,40})?$"
)
_TIMED: Final = lazy_re(r"(?:timed|clock)(?:wait|lock|rdlock|wrlock|join)\d{0,2}(?:@\S{1,40})?$|trylock|tryjoin")
_NO_LIMIT: Final = lazy_re(r"\babstime=(?:abstime@entry=)?0x0\b")
_LIMIT: Final = lazy_re(r"\babstime=(?:abstime@entry=)?0x(?!0\b)[0-9a-f]{1,16}\b")
_WRAPPERS: Final = lazy_re(
    r"(?:std::(?:__\w{1,20}::)?(?:condition_variable|mutex|thread|unique_lock|lock_guard|scoped_lock|recursive_mutex"
    r"|shared_mutex|counting_semaphore|barrier|latch|lock)|__?gthread_\w{1,40}|boost::(?:condition_variable|mutex))\b"
)
"""Classes of C++ around these."""

_WAITS: Final = lazy_re(
    r"(?i:.{0,200}(?:_|::|\b)wait(?:_(?:for|until|any|all|one))?$)|.{0,200}[a-z]Wait[A-Z]?\w{0,20}$"
)
_FOREVER: Final = lazy_re(
    r"\b(?:deadline|timeout|nanos|limit)\w{0,20} ?= ?(?:9223372036854775807|18446744073709551615|0x0{0,1}[7f]f{15})\b"
)
"""Time limits that never come: the largest numbers of 64 bits."""

_BATCH: Final = "for the next batch of its DataLoader"
_TAKES: Final = lazy_re(r"_try_get_data$")
_POLLS: Final = lazy_re(
    r"(?:get|_?poll|_?wait(?:_for)?|select|acquire|_recv(?:_bytes)?|recv_bytes|_?read|__enter__)$"
    r"|(?:__)?(?:GI_+)?(?:futex|_futex|lll|pthread_cond|do_futex|sem|_new_sem|poll|ppoll|epoll|select|clock_)\w{0,60}"
    r"(?:@\S{1,40})?$"
)
"""Functions of Python's queues, pipes and locks, and of the C library below them."""


_HANDS_ON: Final = lazy_re(
    r"_?(?:poll|select|recv|recv_multipart|recv_bytes|dequeue|acquire|acquire_read|wait|wait_for|get_nowait|get)$"
)


def only_takes(frame: Frame) -> bool:
    """Return whether a function of Python only waits for what comes from elsewhere: its caller says what that is."""
    return frame.language == "python" and _HANDS_ON.match(frame.function) is not None


def _taking(frames: Sequence[Frame]) -> int | None:
    """Return the index of the frame of a DataLoader that waits for a batch (W2), or None."""
    taking = next((n for n, frame in enumerate(frames[:_DEEP]) if _TAKES.match(frame.function)), None)
    if not taking or not (frames[taking].file or "").endswith("data/dataloader.py"):
        return None
    return taking if all(_POLLS.match(frame.function) for frame in frames[:taking]) else None


def waiting_call(frames: Sequence[Frame]) -> tuple[int, Sequence[str]]:
    """Return the index of the frame that waits by a call of the C library, and the functions of that call."""
    if (taking := _taking(frames)) is not None:
        return taking, []
    calls = [frame.function for frame in takewhile(lambda frame: _CALLS.match(frame.function), frames[:_DEEP])]
    if not calls and (own := list(takewhile(lambda frame: _WAITS.match(frame.function), frames[:_DEEP]))):
        return len(own) - 1, []
    wraps = takewhile(lambda frame: _WRAPPERS.match(frame.function), frames[len(calls) :])
    return len(calls) + len(list(wraps)), calls


def awaited(text: str, frames: Sequence[Frame]) -> str:
    """Return what the thread of a stack waits for without a limit (W1): `on a condition variable …`; "" if unknown."""
    if _taking(frames) is not None:
        return _BATCH
    calls = waiting_call(frames)[1]
    if not calls and frames and _WAITS.match(frames[0].function) and _FOREVER.search(text):
        return "without a time limit"
    if _LIMIT.search(text) is not None or any(_TIMED.search(call) for call in calls):
        return ""
    if _NO_LIMIT.search(text) is None and not any(_ENDLESS.search(call) for call in calls):
        return ""
    return next((what for call in calls for what, form in _KINDS.items() if form.search(call)), "")
