"""Rule for killed ranks or children of ranks, and the ranks that wait for them.

Invariants:
    rules_killed.K1. Only an end by signal that the job's own rule calls a crash (ends.is_crash) counts: not a rank
        that was asked to end, or a child next to a job that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from livedbg.adapters.pytorch.facts import call_facts
from livedbg.adapters.pytorch.rules.calls import key_words, rank_list
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import line_of
from livedbg.analysis.postmortem.ended import how_ended, is_crash, was_asked
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import user_frame
from livedbg.analysis.rules.words import name_of
from livedbg.model import Evidence, Process, Severity, Task, TaskState
from livedbg.text.wording import sentence_case

_PREFIX = "task:collective/"


class RankKilled:
    """A rank, or a child of one, that a signal has ended while others wait for the rank."""

    name = "rank-killed"
    doc = (
        "A rank was ended by a signal that nobody sends to ask for an end, and others wait for it in a collective, for "
        "a key of the store or in `init_process_group`; or a child of a rank was, such as a worker of a DataLoader or "
        "of Inductor, and others wait for that rank. It is the crash of `crash`, with the rank. Which rank a process "
        "was is known where it was seen alive, or where it is the only child of the launcher that has ended and all "
        "other ranks are there."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        first: dict[str, tuple[Task, int, Process, bool]] = {}
        waiting: dict[str, dict[int, str]] = {}
        for task in state.tasks_in(TaskState.RUNNING):
            if task.id.startswith(_PREFIX) and (threads := _waiting(task, state)):
                for rank, process, own in _killed(task, state):
                    known = first.setdefault(process.id, (task, rank, process, own))[0]
                    if (known.name, call_facts(known).keys) == (task.name, call_facts(task).keys):
                        waiting.setdefault(process.id, {}).update(threads)
        for name, (task, rank, process, own) in first.items():
            who = f"Rank {rank} of {call_facts(task).ranks or '?'} (process {process.pid})"
            who = who if own else f"{sentence_case(name_of(name, state.snapshot))}, a child of rank {rank},"
            yield self._finding(task, who, process, waiting[name], state)

    def _finding(self, task: Task, who: str, process: Process, waiting: Mapping[int, str], state: RuleInput) -> Finding:
        how = how_ended(process.exit_status)
        waits = "waits" if len(waiting) == 1 else "wait"
        threads = tuple(thread for _, thread in sorted(waiting.items()))
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL,
            sentence=f"{who} was ended {how}; {rank_list(waiting)} {waits} {_where(task, threads, state)}.",
            entities=(process.id, task.id, *threads),
            evidence=(Evidence(kind="proc", source=f"wait status of {process.pid}", text=how),),
            next=("dmesg | grep -i oom   tells whether the OOM killer did it",),
            state=VerdictState.CRASHED,
            roots=(process.id,),
        )


def _killed(task: Task, state: RuleInput) -> Iterator[tuple[int, Process, bool]]:
    """Yield the processes whose end blocks a task: its rank, the process, and whether that is the rank itself."""
    processes = state.snapshot.processes
    facts = call_facts(task)
    for rank in facts.ended:
        process = processes.get(facts.processes.get(rank, ""))
        if process is not None and _by_signal(process, state):
            yield rank, process, True
    for rank in facts.absent:
        own = processes.get(facts.processes.get(rank, ""))
        for child in processes.values():
            if own is not None and child.ppid == own.pid and child.host == own.host and _by_signal(child, state):
                yield rank, child, False


def _by_signal(process: Process, state: RuleInput) -> bool:
    status = process.exit_status
    by_signal = process.exited and status is not None and status < 0 and not was_asked(status)
    return by_signal and is_crash(process, state)


def _waiting(task: Task, state: RuleInput) -> dict[int, str]:
    """Return the threads that wait in a task, by rank."""
    ranks = {process: rank for rank, process in call_facts(task).processes.items()}
    threads = (state.snapshot.threads.get(waiter) for waiter in state.graph.waiters_of(task.id))
    return {ranks[one.process]: one.id for one in threads if one is not None and one.process in ranks}


def _where(task: Task, waiting: Iterable[str], state: RuleInput) -> str:
    """Return `in all_reduce #5 (train.py:3)`, `for key 'ready' of the store (train.py:9)`."""
    lines = {line_of(frame) for one in waiting if (frame := user_frame(one, state)) is not None}
    at = f" ({lines.pop()})" if len(lines) == 1 and "" not in lines else ""
    facts = call_facts(task)
    return f"for {key_words(facts.keys)} of the store{at}" if facts.kind == "store" else f"in {task.name}{at}"


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (RankKilled(),)
