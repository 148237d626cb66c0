"""A process that used to launch kernels and launches none any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.cuda.rules.gpus import waits_for_gpu_in
from livedbg.adapters.cuda.rules.launch_rates import HABIT, next_steps, often, traced_span
from livedbg.adapters.cuda.rules.launch_threads import ThreadLaunchesStopped, silent_threads
from livedbg.adapters.cuda.rules.sentences import launched_last
from livedbg.analysis.diagnosis import Diagnosis, Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput, Settings
from livedbg.analysis.rules.places import call_at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.model import Evidence, Severity, Thread, WaitKind, ids
from livedbg.model.launches import CALLS, LaunchTrail
from livedbg.model.snapshot import Counter, Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["LaunchesStopped", "rules", "stacks_wanted"]

_SECOND_NS: Final = 1_000_000_000


class _Silence(Struct, frozen=True):
    """A process that launches nothing.

    Attributes:
        since_mono_ns: since when, at the latest.
        lasted_ns: for so long, at least.
        per_s: launch calls a second before that, in the mean.
    """

    process: str
    calls: Counter
    since_mono_ns: int
    lasted_ns: int
    per_s: float


class LaunchesStopped:
    """Launches have stopped while all of them were traced."""

    name = "launches-stopped"
    doc = (
        "While launches are traced: a process launched kernels repeatedly, and has launched none for longer than "
        "the threshold (10 s) and than 10 times the usual time between two changes of the count. It is a stall if "
        "a thread of it waits for the GPU (cudaStreamSynchronize and the like, from a stack taken since then): the "
        "last launch has not completed. Without such a thread the process may be done, or between two phases. The "
        "verdict is then `unknown` if no thread uses the CPU. If one does, it may compute or wait by spinning, and "
        "the finding decides nothing. A process that waits for connections or sleeps for a time is idle and not "
        "reported. Time in which the rate was too high for tracing does not count. Always inferred."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a process."""
        for silence in _silences(state):
            threads = [t for t in state.snapshot.threads_of(silence.process) if not t.exited]
            waiting = _waiting(threads, silence, state.snapshot)
            if waiting is not None:
                thread, function = waiting
                words = (
                    f"{name_of(thread.id, state.snapshot)} waits for the GPU in {call_at(function, thread.id, state)}"
                )
                yield self._finding(silence, thread, words, VerdictState.STALLED, state)
                continue
            busy = _busiest(threads, state)
            if busy is not None:
                words = (
                    f"{name_of(busy.id, state.snapshot)} uses the CPU meanwhile: it computes, or it waits for the GPU "
                    "by spinning"
                )
                yield self._finding(silence, busy, words, None, state)
            elif not _idle_by_will(threads, state):
                words = "no thread was seen to wait for the GPU: it may be done with it, or be held up before a launch"
                yield self._finding(silence, None, words, VerdictState.UNKNOWN, state)

    def _finding(
        self, silence: _Silence, thread: Thread | None, meanwhile: str, verdict: VerdictState | None, state: RuleInput
    ) -> Finding:
        snapshot = state.snapshot
        kernels, launches = launched_last(silence.process, snapshot)
        who = name_of(silence.process, snapshot)
        sentence = (
            f"{sentence_case(who)} has launched nothing on a GPU for {duration(silence.lasted_ns)}; before that "
            f"there were launch calls, {often(silence.per_s)} in the mean. {sentence_case(meanwhile)}."
        )
        if kernels:
            sentence += f" Launched last (newest first): {kernels}."
        since = snapshot.now(ids.parse(silence.process).parts[0]).wall_ns - silence.lasted_ns
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=sentence,
            entities=(silence.process, *([thread.id] if thread is not None else [])),
            evidence=(
                Evidence(
                    kind="counter",
                    source=f"{CALLS} of {name_of(silence.process, snapshot)}",
                    text=f"unchanged at {silence.calls.value:,.0f}",
                    at_wall_ns=since,
                ),
                *([thread_evidence(thread, state)] if thread is not None else []),
                *launches,
            ),
            next=next_steps(silence.process),
            inferred=True,
            since_wall_ns=since,
            state=verdict,
            roots=(thread.id if thread is not None else silence.process,),
        )


def _silences(state: RuleInput) -> Iterator[_Silence]:
    snapshot = state.snapshot
    for key, calls in snapshot.counters.items():
        process = snapshot.processes.get(key.entity) if key.name == CALLS else None
        if process is None or process.exited or calls.changes < HABIT:
            continue
        traced = traced_span(process, snapshot)
        if traced is None:
            continue
        newest = max((trail.last[-1].mono_ns for trail in _trails(key.entity, snapshot)), default=0)
        since = max(calls.changed_mono_ns, traced[0], newest)
        lasted = traced[1] - since
        span = calls.changed_mono_ns - calls.first_mono_ns
        if lasted >= max(state.settings.task_stall_ns, state.settings.slow_factor * span / calls.changes):
            yield _Silence(key.entity, calls, since, lasted, max(calls.value, 1.0) * _SECOND_NS / max(span, 1))


def _trails(process: str, snapshot: Snapshot) -> list[LaunchTrail]:
    return [trail for trail in snapshot.launches.values() if trail.process == process and trail.last]


def _waiting(threads: Sequence[Thread], silence: _Silence, snapshot: Snapshot) -> tuple[Thread, str] | None:
    """A thread that has been waiting for a GPU since launches stopped, and what it waits in."""
    for thread in threads:
        stack = snapshot.stacks.get(thread.id)
        if stack is not None and stack.taken_mono_ns >= silence.since_mono_ns:
            function = waits_for_gpu_in(thread, snapshot)
            if function:
                return thread, function
    return None


def _busiest(threads: Sequence[Thread], state: RuleInput) -> Thread | None:
    """The thread that uses most of a core, and a good part of it."""
    busy: list[tuple[float, Thread]] = []
    for thread in threads:
        seen = state.snapshot.activity.get(thread.id)
        if seen is not None and seen.window_ns and seen.waiting_since_mono_ns is None:
            busy.append((seen.cpu_ns / seen.window_ns, thread))
    share, busiest = max(busy, key=lambda one: one[0], default=(0.0, None))
    return busiest if share >= state.settings.busy_share else None


def _idle_by_will(threads: Sequence[Thread], state: RuleInput) -> bool:
    """Whether it waits for connections, or all its threads sleep for a time."""
    if all(thread.wait is WaitKind.SLEEP for thread in threads):
        return True
    blockers = (state.snapshot.resources.get(name) for thread in threads for name in state.graph.blockers_of(thread.id))
    return any(one is not None and one.listening for one in blockers)


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (LaunchesStopped(), ThreadLaunchesStopped())


def stacks_wanted(snapshot: Snapshot, diagnosis: Diagnosis) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Whose stacks may show a wait for the GPU: all of a process that stopped launching, single threads of others."""
    for finding in diagnosis.findings.values():
        if finding.rule == LaunchesStopped.name and finding.state is not VerdictState.STALLED:
            yield finding.entities[0], ()
    for thread, _, _ in silent_threads(snapshot, Settings()):
        stack, activity = snapshot.stacks.get(thread.id), snapshot.activity[thread.id]
        if stack is None or stack.taken_mono_ns < (activity.waiting_since_mono_ns or 0):
            yield thread.process, (thread.id,)
