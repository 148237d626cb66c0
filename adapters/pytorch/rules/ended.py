"""Rules for ranks whose process has ended or was killed, and the ranks that wait for them.

Invariants:
    rules_killed.K1. Only an end by signal that the job's own rule calls a crash (ends.is_crash) counts: not a rank
        that was asked to end, or a child next to a job that goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from livedbg.adapters.pytorch.facts import call_facts
from livedbg.adapters.pytorch.rules.calls import PREFIX, Call, calls_of, key_words, rank_list, who_wait
from livedbg.adapters.pytorch.rules.threads import at_line
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import how_ended, is_crash, was_asked, was_hung
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, thread_evidence
from livedbg.model import Evidence, Process, Severity, Task, TaskState
from livedbg.text.wording import sentence_case


def only_error(times: int, state: RuleInput, others: Collection[str] = ()) -> str:
    """Return `: ValueError: bad shard`, if it is the only exception in the logs and frequent enough; else "".

    Args:
        times: number of processes that it ended.
        others: processes that did not end, whose own logs may show it.
    """
    hits = [hit for hit in state.snapshot.exceptions.values() if hit.source is not None]
    if len(hits) != 1 or hits[0].count < times or hits[0].process in others:
        return ""
    return f": {hits[0].type}: {hits[0].message}".rstrip(": .")


class CollectiveEnded:
    """A collective that can't complete because a rank of it has ended."""

    name = "collective-ended"
    doc = (
        "Ranks have waited in a collective of torch.distributed for the threshold (10 s) and longer, and a rank of its "
        "group that has not entered it has no process any more: it was seen to end, or all ranks are children of one "
        "launcher on this host that is watched, and it has no child left that could be that rank. Where the launcher "
        "starts that rank anew, it ends the others first. It is a crash where the rank ended with a status that is not "
        "0, and was not asked to end. Rests on the Flight Recorders and on the launcher's children."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for call in calls_of(state):
            if call.facts.ended and call.waiting and call.age_ns >= state.settings.thread_stall_ns:
                yield self._finding(call, state)

    def _finding(self, call: Call, state: RuleInput) -> Finding:
        processes = tuple(process for rank in call.facts.ended if (process := call.processes.get(rank)))
        verb = "has" if len(call.facts.ended) == 1 else "have"
        threads = tuple(thread for _, thread in sorted(call.waiting.items()))
        return Finding(
            rule=self.name,
            severity=Severity.ERROR,
            sentence=(
                f"{rank_list(call.facts.ended, start=True)} of {call.facts.ranks} {verb} no process any more"
                f"{_how_ended(processes, call, state)}; {who_wait(call.waiting)} in {call.title}."
            ),
            entities=(call.task.id, *processes, *threads),
            evidence=tuple(thread_evidence(state.snapshot.threads[thread], state) for thread in threads[:4]),
            since_wall_ns=call.task.since_wall_ns,
            state=VerdictState.CRASHED if any(ended_badly(one, state) for one in processes) else VerdictState.STALLED,
            roots=processes or threads[:1],
        )


def wait_statuses(processes: Iterable[str], state: RuleInput) -> Iterator[Evidence]:
    """Yield how processes have ended, as far as known."""
    for process in (state.snapshot.processes.get(one) for one in processes):
        if process is not None and process.exited and process.exit_status is not None:
            source = f"wait status of {process.pid}"
            yield Evidence(kind="proc", source=source, text=how_ended(process.exit_status))


def ended_badly(process: str, state: RuleInput) -> bool:
    """Return whether a process failed by itself: status not 0, and not from a requested end."""
    known = state.snapshot.processes.get(process)
    status = known.exit_status if known is not None and known.exited else None
    return status not in (0, None) and not was_asked(status) and was_hung(state.snapshot) is None


def _how_ended(processes: Sequence[str], call: Call, state: RuleInput) -> str:
    """Return ` (ended by SIGKILL)` if a single process ended and its status is known."""
    known = state.snapshot.processes.get(processes[0]) if len(processes) == 1 else None
    if known is None or known.exit_status is None:
        return ""
    others = [process for process in call.processes.values() if process not in processes]
    error = only_error(1, state, others) if known.exit_status == 1 else ""  # what Python ends with after an exception
    return f" (ended {how_ended(known.exit_status)}{error})"


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
            if task.id.startswith(PREFIX) and (threads := _waiting(task, state)):
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
        threads = tuple(thread for _, thread in sorted(waiting.items()))
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL,
            sentence=f"{who} was ended {how}; {who_wait(waiting)} {_where(task, threads, state)}.",
            entities=(process.id, task.id, *threads),
            evidence=tuple(wait_statuses((process.id,), state)),
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
    at = at_line(waiting, state)
    facts = call_facts(task)
    return f"for {key_words(facts.keys)} of the store{at}" if facts.kind == "store" else f"in {task.name}{at}"
