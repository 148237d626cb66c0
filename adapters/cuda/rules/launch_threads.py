"""A thread that used to launch kernels and waits for the GPU, while others of its process go on launching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from livedbg.adapters.cuda.rules.gpus import waits_for_gpu_in
from livedbg.adapters.cuda.rules.launch_rates import HABIT, next_steps, often, traced_span
from livedbg.adapters.cuda.rules.sentences import launched_last
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput, Settings
from livedbg.analysis.rules.places import call_at
from livedbg.analysis.rules.words import duration, name_of, thread_evidence, waited_ns
from livedbg.model import Evidence, Severity, Thread
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["SilentThread", "ThreadLaunchesStopped", "silent_threads"]

_SECOND_NS: Final = 1_000_000_000


class SilentThread(NamedTuple):
    """A thread that has launched nothing, in one and the same wait, for so long that it is unusual.

    Attributes:
        lasted_ns: how long, at least.
        per_s: launches a second before that, in the mean.
    """

    thread: Thread
    lasted_ns: int
    per_s: float


def silent_threads(snapshot: Snapshot, settings: Settings) -> Iterator[SilentThread]:
    """Threads that launched again and again, and now wait for something: nobody knows for what without a stack."""
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
        """One finding a thread."""
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
    """Whether other threads of its process have launched something lately: else it is the process that has stopped."""
    snapshot = state.snapshot
    process = snapshot.processes[silent.thread.process]
    traced = traced_span(process, snapshot)
    newest = max(t.last[-1].mono_ns for t in snapshot.launches.values() if t.process == process.id and t.last)
    lately = min(silent.lasted_ns // 2, state.settings.task_stall_ns)
    return traced is not None and traced[1] - newest < lately
