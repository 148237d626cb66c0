"""Rules for waits of ranks whose other party is unknown: store keys, messages of unknown origin or in flight.

Invariants:
    rules_apart.A1. A wait for a store key is a stall only if some rank that does not wait for keys is blocked itself
        (absent.absence_of), all such ranks are, and no other thread of the waiting process may set the key. Only main
        threads count, and threads that others wait for: a helper may wait for a key, such as one that says stop, for as
        long as the job runs.
    rules_apart.A2. A message with bytes in flight is no stall, and says nothing about its sender now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from livedbg.adapters.pytorch.collectives.families import living_children
from livedbg.adapters.pytorch.facts import call_facts
from livedbg.adapters.pytorch.rules.absent import Absence, absence_of, others_may
from livedbg.adapters.pytorch.rules.calls import PREFIX, key_words, late_ns, lived_ns, rank_list, who_wait
from livedbg.adapters.pytorch.rules.ended import ended_badly, wait_statuses
from livedbg.adapters.pytorch.rules.threads import at_line, is_main
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import duration, thread_evidence, waited_ns
from livedbg.model import Severity, Task, TaskState, Thread

_WORDS = 3
_SAID_NS = 1_000_000_000


def _waiting(state: RuleInput) -> Iterator[tuple[Task, Thread, int]]:
    """Yield the tasks of these rules, with the waiting thread and how long it has not run."""
    for task in state.tasks_in(TaskState.RUNNING):
        if not task.id.startswith(PREFIX):
            continue
        for waiter in state.graph.waiters_of(task.id):
            thread = state.snapshot.threads.get(waiter)
            if thread is not None:
                yield task, thread, waited_ns(thread, state.snapshot) or 0


class StoreKeys:
    """Ranks that wait for store keys that nobody has set."""

    name = "store-key"
    doc = (
        "Ranks have waited for keys of the store of torch.distributed (`store.get`, `store.wait`) for the threshold "
        "(10 s) and longer. It is a stall where ranks that do not wait for keys are in one wait without a time limit "
        "for the threshold, have ended or are stopped, and no other thread of who waits may set the key; a crash where "
        "one of them has ended with a status that is not 0. Where all ranks that are seen wait for keys, or one of the "
        "others may go on, it is `unknown`: any process that reaches the store may set one. It is so, too, while one "
        "has ended and the others poll, which does not say for how long. The keys are read from the value stack of the "
        "Python frame that calls the store, and the thread's native stack is in it."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        alike: dict[tuple[str, ...], list[tuple[Task, Thread, int]]] = {}
        inside: set[str] = set()
        for task, thread, waited in _waiting(state):
            facts = call_facts(task)
            if facts.kind == "store" and _matters(thread, state):
                alike.setdefault(facts.keys, []).append((task, thread, waited))
                inside.add(thread.process)
        for keys, found in alike.items():
            others = {
                rank: process for rank, process in call_facts(found[0][0]).processes.items() if process not in inside
            }
            age_ns = max(*(waited for *_, waited in found), late_ns(others.values(), state))  # who waits may poll
            if age_ns >= state.settings.thread_stall_ns or any(_ended(one, state) for one in others.values()):
                yield self._finding(keys, found, others, age_ns, state)

    def _finding(
        self,
        keys: Sequence[str],
        found: Sequence[tuple[Task, Thread, int]],
        others: Mapping[int, str],
        age_ns: int,
        state: RuleInput,
    ) -> Finding:
        facts = call_facts(found[0][0])
        ranks = facts.processes
        waiting = sorted(rank for rank, process in ranks.items() if process in {one.process for _, one, _ in found})
        absences = {rank: absence_of(process, state) for rank, process in sorted(others.items())}
        unseen = facts.unseen
        stuck = bool(absences) and all(one.state is VerdictState.STALLED for one in absences.values()) and not unseen
        may = others_may({thread.process: thread.id for _, thread, _ in found}, state)
        lasts = age_ns >= state.settings.thread_stall_ns
        amounts_to = VerdictState.STALLED if stuck and lasts and not may else VerdictState.UNKNOWN
        if stuck and any(ended_badly(one, state) for one in others.values()):
            amounts_to = VerdictState.CRASHED
        threads = [thread for _, thread, _ in found]
        first = threads[0]
        waits = f"for {key_words(keys)} of the store{at_line((first.id,), state)}"
        said = _said(absences, unseen, len(ranks))
        if may:
            said += f"; another thread{'' if may == ' ' else may} may set it"
        entity = next((one.entity for one in absences.values() if one.state is VerdictState.STALLED), first.id)
        for_how_long = f" for {duration(age_ns)}" if age_ns >= _SAID_NS else ""  # else it polls
        sentence = f"{who_wait(waiting, start=True)} {waits}{for_how_long}, and nobody sets it{said}."
        if amounts_to is VerdictState.CRASHED:
            sentence = f"{_who_ended(others, len(ranks), state)}; {who_wait(waiting)} {waits}."
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if amounts_to is not VerdictState.UNKNOWN else Severity.WARNING,
            sentence=sentence,
            entities=tuple(dict.fromkeys((entity, *(task.id for task, *_ in found), *(one.id for one in threads)))),
            evidence=(
                *wait_statuses(others.values(), state),
                *(
                    thread_evidence(state.snapshot.threads[one], state)
                    for one in dict.fromkeys((*(one.id for one in threads[:4]), entity))
                    if one in state.snapshot.threads
                ),
            ),
            next=(f"livedbg stacks {first.process.rpartition('/')[2]} --native",),
            state=amounts_to,
            roots=(entity,),
            decides=amounts_to is VerdictState.UNKNOWN and not any(one.busy for one in absences.values()),
        )


class NotJoined:
    """Ranks in `init_process_group` that wait for ranks not seen."""

    name = "rank-not-seen"
    doc = (
        "Ranks are in `init_process_group`, and others have not come and are not among the processes that are watched. "
        "It is `unknown`: they may be on another host, or come yet. It is said once all that are seen have been there "
        "for the threshold (10 s), with where they meet (`MASTER_ADDR`, `MASTER_PORT`), whether somebody listens "
        "there, and which other hosts have connections to it (`/proc/PID/net/tcp`). Where what started them has no "
        "other child now, that is said, too: a rank that has ended is no process any more once its parent has "
        "collected its status."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for task in state.tasks_in(TaskState.RUNNING):
            facts = call_facts(task)
            if facts.kind != "init_process_group" or not facts.unseen or facts.absent:
                continue
            waiters = [state.snapshot.threads.get(one) for one in state.graph.waiters_of(task.id)]
            threads = [one for one in waiters if one is not None]
            if threads and lived_ns({one.process for one in threads}, state) >= state.settings.thread_stall_ns:
                yield self._finding(task, threads, state)

    def _finding(self, task: Task, threads: Sequence[Thread], state: RuleInput) -> Finding:
        facts = call_facts(task)
        inside, missing, where = facts.inside, facts.unseen, facts.meets
        are = "is" if len(missing) == 1 else "are"
        come = "" if facts.hosts or facts.others else f"{'has' if len(missing) == 1 else 'have'} not come, and "
        parts = [
            f"{len(inside)} of {facts.ranks} ranks {'is' if len(inside) == 1 else 'are'} in init_process_group"
            f"{at_line((threads[0].id,), state)}{f' at {where}' if where else ''}"
            f"{', where nobody listens' if facts.deserted else ''}",
            f"{rank_list(missing)} {come}{are} not among the processes that are watched",
            *([f"{' '.join(facts.hosts)} has connections to it"] if facts.hosts else []),
            *(["other processes of this host have connections to it"] if facts.others else []),
            *_no_other_child(threads, state),
        ]
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=f"{'; '.join(parts)}.",
            entities=(task.id, *(one.id for one in threads)),
            evidence=tuple(thread_evidence(one, state) for one in threads[:4]),
            next=("livedbg attach torchrun:PID, or on the host of the other ranks",),
            state=VerdictState.UNKNOWN,
            decides=True,
        )


class MessagesUnderWay:
    """Ranks that wait for a message when neither side can be blamed."""

    name = "message-wait"
    doc = (
        "A rank has waited for a message for the threshold (10 s) and longer, and whose turn it is can't be told: "
        "bytes are on their way on a connection between the two (a slow link, or a large message), or the message was "
        "posted with `irecv` or `isend` in a job of more than two ranks, and no frame says any more whom it is from or "
        "for. It is `unknown`. Rests on the stacks, and on the kernel's list of connections in /proc/PID/net/tcp."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for task, thread, waited in _waiting(state):
            facts = call_facts(task)
            posted = facts.posted and facts.peer is None
            if waited >= state.settings.thread_stall_ns and (facts.under_way or posted):
                rank = facts.rank_of(thread.process)
                who = f"Rank {rank}" if rank is not None else "A rank"
                why = (
                    "bytes between the two are on their way"
                    if facts.under_way
                    else f"{facts.kind} was posted before, and which rank it is with can't be told"
                )
                yield Finding(
                    rule=self.name,
                    severity=Severity.WARNING,
                    sentence=f"{who} waits in {task.name}{at_line((thread.id,), state)} for {duration(waited)}: {why}.",
                    entities=(task.id, thread.id),
                    evidence=(thread_evidence(thread, state),),
                    state=VerdictState.UNKNOWN,
                    decides=True,
                )


def _no_other_child(threads: Sequence[Thread], state: RuleInput) -> Iterator[str]:
    """Yield a note if the watched process that started all seen ranks has no other child now."""
    ranks = {one.process for one in threads}
    known = [state.snapshot.processes[one] for one in ranks if one in state.snapshot.processes]
    parents = {one.ppid for one in known}
    starter = next((one for one in state.snapshot.processes.values() if {one.pid} == parents and one.target), None)
    if len(ranks) != len(known) or starter is None or starter.exited:
        return
    if ranks == {child.id for child in living_children(starter, state.snapshot)}:
        yield f"process {starter.pid}, which started these, has no other child now"


def _matters(thread: Thread, state: RuleInput) -> bool:
    """Return whether it is a main thread, or some thread waits for it."""
    waiters = state.graph.waiters_of(thread.id)
    return is_main(thread) or any(waiter.startswith("thread:") for waiter in waiters)


def _said(absences: dict[int, Absence], unseen: Sequence[int], seen: int) -> str:
    parts = [f"rank {rank}: {one.what}" for rank, one in list(absences.items())[:_WORDS]]
    if len(absences) > _WORDS:
        parts.append(f"and {len(absences) - _WORDS} more")
    if not absences and not unseen:
        parts.append(f"all {seen} ranks wait for keys" if seen > 1 else "no other rank is known")
    if unseen:
        parts.append(f"{rank_list(unseen)} not among the processes that are watched")
    return "".join(f"; {part}" for part in parts)


def _who_ended(others: Mapping[int, str], total: int, state: RuleInput) -> str:
    """Return `Rank 1 of 3 (process 4711) has ended with status 3`."""
    rank, process = next((rank, one) for rank, one in others.items() if ended_badly(one, state))
    known = state.snapshot.processes[process]
    return f"Rank {rank} of {total} (process {known.pid}) has ended {how_ended(known.exit_status)}"


def _ended(process: str, state: RuleInput) -> bool:
    known = state.snapshot.processes.get(process)
    return known is not None and known.exited
