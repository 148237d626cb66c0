"""Rules for processes that stopped launching kernels, and threads that wait for the GPU while others still launch.

Invariants:
    launch_rates.L1. Time in which launches were not traced does not count, nor time whose events were not read yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.adapters.cuda.rules.gpus import waits_for_gpu_in
from livedbg.adapters.cuda.rules.sentences import launched_last
from livedbg.analysis.diagnosis import Diagnosis, Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput, Settings
from livedbg.analysis.rules.places import call_at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence, waited_ns
from livedbg.model import Evidence, Process, Severity, Thread, WaitKind, ids
from livedbg.model.launches import CALLS, TRACED, TRACED_TO
from livedbg.model.snapshot import Counter, CounterKey, Snapshot
from livedbg.text.wording import sentence_case

HABIT: Final = 4
"""Number of half seconds with launches that show a regular rate."""

_SECOND_NS: Final = 1_000_000_000


def traced_span(process: Process, snapshot: Snapshot) -> tuple[int, int] | None:
    """Return a span in which all launches of a process were traced (CLOCK_MONOTONIC, ns; L1), or None."""
    traced = snapshot.counters.get(CounterKey(process.id, TRACED))
    if traced is None or not traced.value:
        return None
    now, to = snapshot.now(process.host).mono_ns, snapshot.counters.get(CounterKey(process.id, TRACED_TO))
    return traced.changed_mono_ns, now if to is None else min(now, int(to.value * _SECOND_NS))


def often(per_s: float) -> str:
    """Return a mean rate, as text."""
    return f"{per_s:,.0f} a second" if per_s >= 2 else f"one in {duration(1e9 / per_s)}"


def next_steps(process: str) -> tuple[str, ...]:
    """Return the next steps when launches have stopped."""
    pid = ids.parse(process).short
    return (
        f"livedbg stacks {pid}   (stacks of all threads, also of those that spin)",
        f"livedbg device {pid} --dump   (which kernel runs, and where its warps are)",
    )


class SilentThread(NamedTuple):
    """A thread that has launched nothing for unusually long, in one wait; with that time, and its rate before."""

    thread: Thread
    lasted_ns: int
    per_s: float


def silent_threads(snapshot: Snapshot, settings: Settings) -> Iterator[SilentThread]:
    """Yield threads that launched repeatedly, and now wait; a stack is needed to know for what."""
    for trail in snapshot.launches.values():
        thread, process = snapshot.threads.get(trail.thread), snapshot.processes.get(trail.process)
        if thread is None or thread.exited or process is None or process.exited:
            continue
        traced, waited = traced_span(process, snapshot), waited_ns(thread, snapshot)
        if traced is None or waited is None or not trail.seen or not trail.last or trail.beats < HABIT:
            continue
        since = max(trail.last[-1].mono_ns, trail.seen_since_mono_ns, traced[0])
        span = max(trail.last[-1].mono_ns - trail.first_mono_ns, 1)
        lasted = min(traced[1] - since, waited)
        if lasted >= max(settings.task_stall_ns, settings.slow_factor * span / trail.beats):
            yield SilentThread(thread, lasted, trail.count * _SECOND_NS / span)


class ThreadLaunchesStopped:
    """One thread's launches have stopped, and it waits for the GPU."""

    name = "thread-launches-stopped"
    doc = (
        "While each launch is traced: a thread launched kernels repeatedly, and has launched none for longer than "
        "the threshold (10 s) and than 10 times its usual pace, while other threads of its process continue to "
        "launch. All that time it has been in one wait, which by its stack is for the GPU (cudaStreamSynchronize "
        "and the like). Such a call waits for work that was given to the GPU before it, not for later launches of "
        "other threads: a stall. A thread that waits for anything else has no more work, as in a thread pool, and "
        "is not reported. Where launches are only counted, nothing is known of single threads. A thread that waits "
        "by spinning is not seen. Always inferred."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        for silent in silent_threads(snapshot, state.settings):
            function = waits_for_gpu_in(silent.thread, snapshot)
            if function and _others_go_on(silent, state):
                yield self._finding(silent, function, state)

    def _finding(self, silent: SilentThread, function: str, state: RuleInput) -> Finding:
        thread, snapshot = silent.thread, state.snapshot
        kernels, launches = launched_last(thread.process, snapshot, thread=thread.id)
        who = name_of(thread.id, snapshot)
        where = call_at(function, thread.id, state)
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(who)} has launched nothing on a GPU for {duration(silent.lasted_ns)} and waits "
                f"for it in {where}, while other threads of {name_of(thread.process, snapshot)} go on launching; "
                f"before that it launched {often(silent.per_s)} in the mean. Launched last (newest first): {kernels}."
            ),
            entities=(thread.id, thread.process),
            evidence=(
                thread_evidence(thread, state),
                Evidence(kind="stack", source=f"stack of {who}", text=function),
                *launches,
            ),
            next=next_steps(thread.process),
            inferred=True,
            since_wall_ns=snapshot.now().wall_ns - silent.lasted_ns,
            state=VerdictState.STALLED,
            roots=(thread.id,),
        )


def _others_go_on(silent: SilentThread, state: RuleInput) -> bool:
    """Return whether other threads of its process have launched recently: if not, the whole process has stopped."""
    snapshot = state.snapshot
    process = snapshot.processes[silent.thread.process]
    traced = traced_span(process, snapshot)
    lately = min(silent.lasted_ns // 2, state.settings.task_stall_ns)
    return traced is not None and traced[1] - _newest(process.id, snapshot) < lately


class _Silence(Struct, frozen=True):
    """A process that launches nothing: since when and how long, at least, and its mean rate before that."""

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
            elif not _is_idle_on_purpose(threads, state):
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
        since = max(calls.changed_mono_ns, traced[0], _newest(key.entity, snapshot))
        lasted = traced[1] - since
        span = calls.changed_mono_ns - calls.first_mono_ns
        if lasted >= max(state.settings.task_stall_ns, state.settings.slow_factor * span / calls.changes):
            yield _Silence(key.entity, calls, since, lasted, max(calls.value, 1.0) * _SECOND_NS / max(span, 1))


def _newest(process: str, snapshot: Snapshot) -> int:
    """Return when a process launched last (CLOCK_MONOTONIC, ns); 0 if not known."""
    trails = (trail for trail in snapshot.launches.values() if trail.process == process and trail.last)
    return max((trail.last[-1].mono_ns for trail in trails), default=0)


def _waiting(threads: Sequence[Thread], silence: _Silence, snapshot: Snapshot) -> tuple[Thread, str] | None:
    """Return a thread that has been waiting for a GPU since launches stopped, and its call."""
    for thread in threads:
        stack = snapshot.stacks.get(thread.id)
        if stack is not None and stack.taken_mono_ns >= silence.since_mono_ns:
            function = waits_for_gpu_in(thread, snapshot)
            if function:
                return thread, function
    return None


def _busiest(threads: Sequence[Thread], state: RuleInput) -> Thread | None:
    """Return the busiest thread, if it uses a good part of a core."""
    busy: list[tuple[float, Thread]] = []
    for thread in threads:
        seen = state.snapshot.activity.get(thread.id)
        if seen is not None and seen.window_ns and seen.waiting_since_mono_ns is None:
            busy.append((seen.cpu_ns / seen.window_ns, thread))
    share, busiest = max(busy, key=lambda one: one[0], default=(0.0, None))
    return busiest if share >= state.settings.busy_share else None


def _is_idle_on_purpose(threads: Sequence[Thread], state: RuleInput) -> bool:
    """Return whether it waits for connections, or all its threads sleep for a time."""
    if all(thread.wait is WaitKind.SLEEP for thread in threads):
        return True
    blockers = (state.snapshot.resources.get(name) for thread in threads for name in state.graph.blockers_of(thread.id))
    return any(one is not None and one.listening for one in blockers)


def stacks_wanted(snapshot: Snapshot, diagnosis: Diagnosis) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield whose stacks may show a wait for the GPU: (process, ()) if it stopped launching, or (process, threads)."""
    for finding in diagnosis.findings.values():
        if finding.rule == LaunchesStopped.name and finding.state is not VerdictState.STALLED:
            yield finding.entities[0], ()
    for thread, _, _ in silent_threads(snapshot, Settings()):
        stack, activity = snapshot.stacks.get(thread.id), snapshot.activity[thread.id]
        if stack is None or stack.taken_mono_ns < (activity.waiting_since_mono_ns or 0):
            yield thread.process, (thread.id,)
