"""Threads that use CPU time and stay in the same functions: they spin, or they compute there.

Invariant:
    spinning.N1. "Spins" is reported only for a thread that repeats itself (livedbg.model.Stack.repeats): a function's
        name is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from livedbg.analysis.behaviour import burns_for_ns
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import line_of
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import user_frame
from livedbg.analysis.rules.words import duration, host_of, name_of, pids_of, thread_evidence
from livedbg.model import Evidence, Frame, Severity, Stack, Thread, ThreadState
from livedbg.state.stacks import waiting_frame
from livedbg.text.wording import sentence_case

_SAMPLES: Final = 3


class _Stay(NamedTuple):
    """A place that a thread does not leave."""

    for_ns: int
    samples: int
    spins: bool
    where: str
    source: str


class Spinning:
    """Rule for a running thread that does not leave one function."""

    name = "spinning"
    doc = (
        "A thread uses CPU time, makes no call, wait or page fault, and all its stacks of the threshold (10 s) and "
        "longer, at least three, are in the same function, whatever that calls in between. Where all samples are in "
        "one loop that only reads memory, and find the same registers there, the thread spins: it gets on only when "
        "somebody else changes what it reads. That is a stall, unless what it waits for comes from outside; while "
        "another thread gets on or computes, that one may be what it waits for, and this is a note. Else it computes "
        "or spins there, whatever the function is named. No stall by itself: a long computation looks the same, and so "
        "does a loop that waits and counts, or that calls something. "
        "In a simulator, whose threads play a chip's cores and poll by design, several that do are not reported. "
        "Rests on samples of running threads, on Python stacks, and on native ones that were asked for (glance)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        threads = state.snapshot.threads.values()
        simulators = {thread.process for thread in state.snapshot.players()}
        for thread in threads:
            if thread.exited or (thread.process in simulators and _another_runs(thread, state)):
                continue
            burnt_ns = burns_for_ns(thread, state)
            if burnt_ns is None:
                continue
            stay = _stay(thread, state)
            if stay is None or stay.samples < _SAMPLES:
                continue
            for_ns = min(burnt_ns, stay.for_ns)
            if for_ns >= state.settings.thread_stall_ns:
                yield self._finding(thread, stay._replace(for_ns=for_ns), state)

    def _finding(self, thread: Thread, stay: _Stay, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        does = "spins" if stay.spins else "computes or spins"
        alone = not _another_runs(thread, state)
        rest = ": a stall, unless what it waits for comes from outside" if stay.spins and alone else ""
        seen = f"{stay.samples} stacks in one place"
        why = (
            f"{stay.samples} samples found the same registers in a loop that only reads memory" if stay.spins else seen
        )
        waiters = tuple(state.graph.waiters_of(thread.id))
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if alone else Severity.INFO,
            sentence=(
                f"{sentence_case(name_of(thread.id, snapshot))} {does} in {stay.where} for "
                f"{duration(stay.for_ns)} or more{rest}."
            ),
            entities=(thread.id, *waiters),
            evidence=(
                thread_evidence(thread, state),
                Evidence(kind="stack", source=stay.source, text=why),
            ),
            next=tuple(f"livedbg stacks {pid} --for 10s" for pid in pids_of((thread.id,))),
            inferred=True,
            since_wall_ns=snapshot.now(host_of(thread.id)).wall_ns - stay.for_ns,
            state=VerdictState.UNKNOWN if alone else None,
            roots=(thread.id,) if alone else (),
        )


def _stay(thread: Thread, state: RuleInput) -> _Stay | None:
    stack = state.snapshot.stacks.get(thread.id)
    spun = _spun(stack, thread, state)
    if spun is not None:
        return spun
    if stack is not None and any(frame.held_mono_ns is not None for frame in stack.frames):
        found = _held(stack, state.settings.thread_stall_ns)
        if found is not None:
            return found
    activity = state.snapshot.activity.get(thread.id)
    if activity is None or activity.stack_since_mono_ns is None:
        return None
    now_ns = state.snapshot.now(host_of(thread.id)).mono_ns
    waits = waiting_frame(stack.frames) if stack is not None else None
    own = user_frame(thread.id, state)
    frame = (
        waits
        or (own if own is not None and own.line else None)
        or (stack.frames[0] if stack and stack.frames else None)
    )
    return _Stay(
        now_ns - activity.stack_since_mono_ns,
        activity.stack_samples,
        False,
        _named(frame, thread, state),
        stack.source if stack else "stacks",
    )


def _spun(stack: Stack | None, thread: Thread, state: RuleInput) -> _Stay | None:
    if stack is None or stack.repeats_since_mono_ns is None or not stack.frames or stack.repeats < _SAMPLES:
        return None
    for_ns = stack.taken_mono_ns - stack.repeats_since_mono_ns
    if for_ns < state.settings.thread_stall_ns:
        return None
    frame = user_frame(thread.id, state) or stack.frames[0]
    line = line_of(frame)
    where = f"{frame.function}{f' ({line})' if line else ''}"
    return _Stay(for_ns, stack.repeats, True, where, stack.source)


def _held(stack: Stack, threshold_ns: int) -> _Stay | None:
    """Return the innermost frame that was in every sample for the threshold, preferably one named like a wait.

    Inner frames change: they are called by a loop, or are steps of a computation. The time counts up to the last sample
    only: nothing is known after it.
    """
    held = [
        (frame, stack.taken_mono_ns - frame.held_mono_ns)
        for frame in stack.frames
        if frame.held_mono_ns is not None and frame.held_samples >= _SAMPLES
    ]
    long = [(frame, for_ns) for frame, for_ns in held if for_ns >= threshold_ns]
    if not long:
        return None
    waits = waiting_frame([frame for frame, _ in long])
    frame, for_ns = next(((frame, for_ns) for frame, for_ns in long if frame is waits), long[0])
    line = line_of(frame)
    where = f"{frame.function}{f' ({line})' if line else ''}"
    return _Stay(for_ns, frame.held_samples, False, where, stack.source)


def _another_runs(thread: Thread, state: RuleInput) -> bool:
    """Return whether another thread runs, or progressed within the threshold: this one may wait for it."""
    snapshot = state.snapshot
    since_ns = snapshot.now(host_of(thread.id)).mono_ns - state.settings.thread_stall_ns
    for other in snapshot.threads.values():
        if other.id == thread.id or other.exited:
            continue
        activity = snapshot.activity.get(other.id)
        if other.state is ThreadState.RUNNING or (activity and activity.steps and activity.step_mono_ns > since_ns):
            return True
    return False


def _named(frame: Frame | None, thread: Thread, state: RuleInput) -> str:
    """Return a function, and the user's line that it is in or was called from."""
    if frame is None:
        return "one place"
    line = line_of(user_frame(thread.id, state) or frame)
    return f"{frame.function}{f' ({line})' if line else ''}"


def rules() -> Sequence[Rule]:
    return (Spinning(),)
