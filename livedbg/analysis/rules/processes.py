"""Processes that are stopped by a signal or by a debugger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, waiting
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.model import Evidence, Process, Severity, ThreadState
from livedbg.text.wording import sentence_case

_SURE_NS: Final = 200_000_000
"""What lasts from one sample to the next, at least so long, is no passing thing."""


def _process_finding(name: str, process: Process, sentence: str, steps: tuple[str, ...], state: RuleInput) -> Finding:
    behind = state.graph.behind(process.id)
    waiters = tuple(w for w in state.graph.waiters_of(process.id) if not w.startswith(f"thread:{process.id[8:]}/"))
    notes = f" ({', '.join(process.notes)})" if process.notes else ""
    where = at(waiters[0], state) if len(waiters) == 1 else ""
    return Finding(
        rule=name,
        severity=Severity.ERROR,
        sentence=f"{sentence}; {waiting(process.id, state)} for it{where}." if behind else f"{sentence}.",
        entities=(process.id, *waiters),
        evidence=(
            Evidence(
                kind="proc",
                source=f"/proc/{process.pid}/status",
                text=f"state {process.state}{notes}",
                at_wall_ns=state.snapshot.now(process.host).wall_ns or None,
            ),
        ),
        next=steps,
        state=VerdictState.STALLED,
        roots=(process.id,),
    )


class StoppedProcess:
    """Rule for a process that was stopped by a signal."""

    name = "stopped-process"
    doc = (
        "A process is stopped by job control (SIGSTOP, SIGTSTP, or a read from the terminal in the background); it "
        "continues when it gets SIGCONT. Rests on its state in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for process in state.snapshot.processes.values():
            if process.state is ThreadState.STOPPED and not process.exited:
                sentence = f"{sentence_case(name_of(process.id, state.snapshot))} is stopped by a signal (job control)"
                yield _process_finding(self.name, process, sentence, (f"kill -CONT {process.pid}",), state)


class TracedProcess:
    """Rule for a process that a debugger has stopped."""

    name = "traced-process"
    doc = (
        "A process is stopped by a debugger or tracer (state `t`) until that resumes it, and was so from one sample to "
        "the next: under strace a program stops and runs on all the time. Rests on its state and on TracerPid in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each process, and for each single thread."""
        for process in state.snapshot.processes.values():
            if process.state is ThreadState.TRACED and not process.exited and self._stays(process, state):
                by = next((note for note in process.notes if note.startswith("traced by ")), "traced")
                name = sentence_case(name_of(process.id, state.snapshot))
                steps = (
                    "continue it in that debugger, or detach",
                    f"cat /proc/{process.pid}/status | grep TracerPid",
                )
                yield _process_finding(self.name, process, f"{name} is stopped by a debugger ({by})", steps, state)
        yield from self._single_threads(state)

    def _single_threads(self, state: RuleInput) -> Iterable[Finding]:
        """Yield findings for threads that a debugger has stopped for the threshold while their process runs (gdb's
        non-stop mode).
        """
        snapshot = state.snapshot
        for thread in snapshot.threads.values():
            activity, process = snapshot.activity.get(thread.id), snapshot.processes.get(thread.process)
            if thread.state is not ThreadState.TRACED or thread.exited or activity is None or process is None:
                continue
            for_ns = snapshot.now(process.host).mono_ns - activity.changed_mono_ns
            if process.state is ThreadState.TRACED or for_ns < state.settings.thread_stall_ns:
                continue
            waiters = tuple(state.graph.waiters_of(thread.id))
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR if waiters else Severity.WARNING,
                sentence=(
                    f"{sentence_case(name_of(thread.id, snapshot))} is stopped by a debugger for {duration(for_ns)} or "
                    f"more{f'; {waiting(thread.id, state)} for it' if waiters else ''}."
                ),
                entities=(thread.id, *waiters),
                evidence=(thread_evidence(thread, state),),
                next=("continue it in that debugger, or detach", f"grep TracerPid /proc/{process.pid}/status"),
                state=VerdictState.STALLED if waiters else None,
                roots=(thread.id,) if waiters else (),
            )

    def _stays(self, process: Process, state: RuleInput) -> bool:
        """Return whether no thread of a process has changed for `_SURE_NS`."""
        mono_ns = state.snapshot.now(process.host).mono_ns
        seen = (state.snapshot.activity.get(thread.id) for thread in state.snapshot.threads_of(process.id))
        return all(activity is None or mono_ns - activity.changed_mono_ns >= _SURE_NS for activity in seen)


def rules() -> Sequence[Rule]:
    return (StoppedProcess(), TracedProcess())
