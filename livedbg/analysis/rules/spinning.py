"""Threads that use CPU time and stay in the same functions: they spin, or they compute there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.burning import burns_for_ns
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import place, user_frame
from livedbg.analysis.rules.words import duration, host_of, name_of, pids_of, thread_evidence
from livedbg.model import Evidence, Frame, Severity, Thread, ThreadState
from livedbg.state.stacks import waiting_frame
from livedbg.text.wording import sentence_case

__all__ = ["Spinning", "rules"]

_SAMPLES: Final = 3


class Spinning:
    """A thread that runs and does not leave the function that it waits in."""

    name = "spinning"
    doc = (
        "A thread uses CPU time, makes no call, wait or page fault, and all its stacks of the threshold (10 s) and "
        "longer, at least three, are in the same functions. Where one of these is named like a wait (a spin lock, a "
        "receive, a barrier, a synchronisation), it spins there: a stall, unless what it waits for comes from outside. "
        "While another thread gets on or computes, that one may be what it waits for, and this is a note. Else it "
        "computes or spins there. No stall by itself: a long computation looks the same. Rests on Python "
        "stacks, and on native ones that were asked for (glance)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a thread."""
        for thread in state.snapshot.threads.values():
            activity = state.snapshot.activity.get(thread.id)
            if thread.exited or activity is None or activity.stack_since_mono_ns is None:
                continue
            burnt_ns = burns_for_ns(thread, state.snapshot, state.settings.thread_stall_ns)
            if burnt_ns is None or activity.stack_samples < _SAMPLES:
                continue
            now_ns = state.snapshot.now(host_of(thread.id)).mono_ns
            for_ns = min(burnt_ns, now_ns - activity.stack_since_mono_ns)
            if for_ns >= state.settings.thread_stall_ns:
                yield self._finding(thread, for_ns, activity.stack_samples, state)

    def _finding(self, thread: Thread, for_ns: int, samples: int, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        stack = snapshot.stacks.get(thread.id)
        waits = waiting_frame(stack.frames) if stack is not None else None
        frame = waits or user_frame(thread.id, snapshot) or (stack.frames[0] if stack and stack.frames else None)
        does = "spins" if waits is not None else "computes or spins"
        alone = not _another_runs(thread, state)
        rest = ": a stall, unless what it waits for comes from outside" if waits is not None and alone else ""
        waiters = tuple(state.graph.waiters_of(thread.id))
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if alone else Severity.INFO,
            sentence=(
                f"{sentence_case(name_of(thread.id, snapshot))} {does} in {_named(frame, thread, state)} for "
                f"{duration(for_ns)} or more{rest}."
            ),
            entities=(thread.id, *waiters),
            evidence=(
                thread_evidence(thread, snapshot),
                Evidence(
                    kind="stack", source=stack.source if stack else "stacks", text=f"{samples} stacks in one place"
                ),
            ),
            next=tuple(f"livedbg stacks {pid} --glance" for pid in pids_of((thread.id,))),
            inferred=True,
            since_wall_ns=snapshot.now(host_of(thread.id)).wall_ns - for_ns,
            state=VerdictState.UNKNOWN if alone else None,
            roots=(thread.id,) if alone else (),
        )


def _another_runs(thread: Thread, state: RuleInput) -> bool:
    """Whether another thread runs, or got on within the threshold: this one may wait for it."""
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
    """A function, and the user's line that it is in or was called from."""
    if frame is None:
        return "one place"
    line = place(user_frame(thread.id, state.snapshot) or frame)
    return f"{frame.function}{f' ({line})' if line else ''}"


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (Spinning(),)
