"""Progress of threads that only use CPU time: calls of the user's code, and iterations of its loops.

Invariants:
    progress_seen.P1. A function of the user's code progresses if samples of the threshold found it in three calls or
        more, which differ in line or callee. Calls that only poll or wait don't count: a polling loop makes the same
        ones again and again.
    progress_seen.P2. A loop's counter is progress of its own thread alone, within the threshold. If it rises no more,
        that says nothing: the loop may have ended short of its total, or be in a long iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import duration, host_of
from livedbg.analysis.user_code import Inside
from livedbg.model import Frame, Thread
from livedbg.model.snapshot import Counter, CounterKey, Snapshot
from livedbg.state.stacks import asks

_ENOUGH: Final = 3
_SHORT_S: Final = 60.0
"""Less that is left of a loop is not said: it may be over when somebody reads that."""

_SLOW: Final = 10.0  # iterations a second below which tenths are said


class CallsSeen(NamedTuple):
    """A function that progresses."""

    frame: Frame
    lines: tuple[int, ...]


def calls_seen(thread: Thread, state: RuleInput) -> CallsSeen | None:
    """Return the outermost function of the user's code that samples found at several calls, or None."""
    snapshot = state.snapshot
    since_ns = snapshot.now(host_of(thread.id)).mono_ns - state.settings.thread_stall_ns
    calls: dict[tuple[str, str], dict[tuple[int, str], Frame]] = {}
    for one in snapshot.profiles.get(thread.id, ()):
        for stack in one.stacks if one.end_mono_ns >= since_ns else ():
            for caller, callee in _calls(stack.frames, state):
                of = calls.setdefault((caller.function, caller.file or ""), {})
                of[caller.line or 0, callee.function] = caller
    for found in calls.values():
        if len(found) >= _ENOUGH:
            return CallsSeen(found[min(found)], tuple(sorted({line for line, _ in found})))
    return None


def _calls(frames: Sequence[Frame], state: RuleInput) -> list[tuple[Frame, Frame]]:
    pairs = [(caller, callee) for callee, caller in pairwise(frames) if caller.line and not asks(callee.function)]
    return [pair for pair in reversed(pairs) if state.code.inside(pair[0]) is Inside.USER]


def loop_of(thread: Thread, state: RuleInput) -> tuple[str, Counter] | None:
    """Return the name and counter of a loop of a thread that progressed within the threshold, or None.

    One value is enough: its source has read it several times (livedbg.adapters.samples.loop_progress).
    """
    counted = state.once(_of_threads).get(thread.id)
    if not counted:
        return None
    since_ns = state.snapshot.now(host_of(thread.id)).mono_ns - state.settings.thread_stall_ns
    going = [(key, counter) for key, counter in counted if counter.per_s and counter.changed_mono_ns >= since_ns]
    if not going:
        return None
    key, counter = max(going, key=lambda one: one[1].changed_mono_ns)
    return key.name, counter


def _of_threads(snapshot: Snapshot) -> dict[str, list[tuple[CounterKey, Counter]]]:
    found: dict[str, list[tuple[CounterKey, Counter]]] = {}
    for key, counter in snapshot.counters.items():
        if key.entity in snapshot.threads:
            found.setdefault(key.entity, []).append((key, counter))
    return found


def said_of(name: str, counter: Counter) -> str:
    """`has done 812 of 10,000 iterations of a loop in train (train.py), 3.1 a second, 49 min left`."""
    done = f"{counter.value:,.0f}"
    rate, left = counter.per_s or 0.0, ""
    if counter.total is not None and rate:
        done = f"{done} of {counter.total:,.0f}" if counter.value >= 0 else f"all but {-counter.value:,.0f}"
        seconds = (counter.total - counter.value) / rate
        left = f", {duration(int(seconds * 1e9))} left" if seconds >= _SHORT_S else ""
    often = f"{rate:,.0f}" if rate >= _SLOW else f"{rate:.1f}"
    return f"has done {done} {name}, {often} a second{left}"
