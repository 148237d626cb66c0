"""Progress by samples: a thread was found in one call of the user's code after another.

Invariants:
    calls_seen.P1. A function of the user's code progresses if samples of the threshold found it in three calls or more,
        which differ in line or callee. Calls that only poll or wait don't count: a polling loop makes the same ones
        again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import host_of
from livedbg.analysis.user_code import Inside
from livedbg.model import Frame, Thread
from livedbg.state.stacks import asks

_ENOUGH: Final = 3


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
