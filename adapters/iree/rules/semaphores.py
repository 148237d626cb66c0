"""Rules for semaphore values that no queued operation will signal, and for wait cycles that a thread may still end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from livedbg.adapters.iree.facts import semaphore_facts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import duration, edge_evidence, many, name_of, waited_ns
from livedbg.model import Evidence, Resource, Severity, Thread
from livedbg.model.snapshot import Snapshot


def longest_wait(entity: str, state: RuleInput) -> tuple[Thread, int] | None:
    """Return the thread that has waited longest, directly or indirectly, for something.

    A wait with a time limit wakes by itself, and does not count.
    """
    todo, seen = [entity], set[str]()
    found: list[tuple[int, str, Thread]] = []
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        thread = state.snapshot.threads.get(one)
        waited = waited_ns(thread, state.snapshot) if thread is not None and not thread.timed else None
        if thread is not None and waited is not None:
            found.append((waited, thread.id, thread))
        todo += state.graph.waiters_of(one)
    waited_most = max(found, default=None)
    return (waited_most[2], waited_most[0]) if waited_most is not None else None


_SHOWN: Final = 3


class MissingSignal:
    """An awaited value of a semaphore that nothing in the queue signals."""

    name = "iree-missing-signal"
    doc = (
        "Operations of an IREE queue, or threads, wait for a value of a semaphore that no queued operation will "
        "signal. Only the host could signal it: a thread of the process. Where every thread either waits for what is "
        "behind the semaphore or is one of the runtime's own, and that has lasted for the threshold (10 s), it is a "
        "stall; where another thread could signal it, it is `unknown`, or a note if that thread itself waits for work "
        "in flight; where no thread waits without a time limit, it is a note. A wait is met by any signal at or above "
        "its value, so a signal above it that itself depends on the wait is no cycle: the one that is missing is the "
        "value itself. Rests on the semaphores and queues in the process's memory, in two looks or more."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each missing value."""
        for resource in state.snapshot.resources.values():
            if semaphore_facts(resource).missing:
                waiters = state.graph.waiters_of(resource.id)
                if waiters:
                    yield _finding(self.name, resource, waiters, state)


def who_could_signal(resource: Resource, snapshot: Snapshot) -> str:
    """Return `signaller could signal it`; "" for nobody. Threads' names may be known later than the semaphore."""
    threads = [snapshot.threads.get(one) for one in semaphore_facts(resource).outsiders]
    names = [one.title or str(one.tid) for one in threads if one is not None]
    return f"{', '.join(names)} could signal it" if names else resource.outside


def _finding(rule: str, resource: Resource, waiters: Sequence[str], state: RuleInput) -> Finding:
    snapshot, facts = state.snapshot, semaphore_facts(resource)
    outside, until = who_could_signal(resource, snapshot), facts.until
    longest = longest_wait(resource.id, state)
    waited = longest[1] if longest is not None else None
    long = waited is not None and waited >= state.settings.thread_stall_ns
    stalled = long and not outside
    operations = [waiter for waiter in waiters if waiter.startswith("task:")]
    who = name_of((operations or list(waiters))[0], snapshot)
    head = (
        f"{who[0].upper()}{who[1:]} waits for value {facts.wanted} of a semaphore at {facts.value}, "
        "and no queued operation signals it"
    )
    behind = state.graph.behind(resource.id) - len(operations or waiters)
    more = f" {many(behind, 'more waits', 'more wait')} behind it." if behind > 0 else ""
    lasted = f" A thread has waited for what is behind it for {duration(waited)}." if waited is not None else ""
    later = f" The next queued signal is {facts.later}, and depends on it." if facts.later is not None else ""
    rest = f": {outside}{f' when {until}' if until else ''}" if outside else ""
    proofs = [edge_evidence(waiter, resource.id, snapshot) for waiter in waiters[:_SHOWN]]
    process = snapshot.processes.get(facts.process)
    pid = str(process.pid) if process is not None else "PID"
    return Finding(
        rule=rule,
        severity=Severity.CRITICAL if stalled else Severity.WARNING if long else Severity.INFO,
        sentence=f"{head}{rest}.{more}{later}{lasted}",
        entities=(resource.id, *waiters),
        evidence=(
            Evidence(kind="memory", source=resource.name, text=f"value {facts.value}, in two looks"),
            *[proof for proof in proofs if proof is not None],
        ),
        next=(
            f"livedbg stacks {pid}   (who should signal it, and where that thread is)",
            "check the host code that creates the wait fence: the value, and that its signal comes on every path",
        ),
        since_wall_ns=snapshot.now().wall_ns - waited if waited is not None else None,
        state=VerdictState.STALLED if stalled else VerdictState.UNKNOWN if long and not until else None,
        roots=(resource.id,) if long and not until else (),
        decides=long and not stalled and not until,  # else what is in flight decides
    )


_SHOWN_OF_CIRCLE: Final = 6


class OpenCircle:
    """A wait cycle that a thread of the process could still end."""

    name = "iree-circle"
    doc = (
        "Operations of IREE queues wait for values of semaphores that each other signals, and a thread of the process, "
        "which does not wait for them, could still signal one: `unknown`, with that thread. Without such a thread it "
        "is a deadlock. Rests on the semaphores and queues in the process's memory."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each cycle."""
        told: set[str] = set()
        for resource in state.snapshot.resources.values():
            outside = who_could_signal(resource, state.snapshot)
            if not outside or semaphore_facts(resource).wanted is None or resource.id in told:
                continue
            circle = _cycle(resource.id, state)
            longest = longest_wait(resource.id, state)
            if not circle or longest is None or longest[1] < state.settings.thread_stall_ns:
                continue
            told.update(circle)
            tasks = [entity for entity in circle if entity.startswith("task:")]
            proofs = [edge_evidence(one, other, state.snapshot) for one, other in pairwise(circle)]
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=(
                    f"{many(len(tasks), 'queue operation waits', 'queue operations wait')} for each other, and a "
                    f"thread has waited behind them for {duration(longest[1])}: {outside}."
                ),
                entities=tuple(circle),
                evidence=tuple(proof for proof in proofs[:_SHOWN_OF_CIRCLE] if proof is not None),
                next=("check the fences of these calls: which should be signalled first, and by whom",),
                state=VerdictState.UNKNOWN,
                decides=True,
                roots=tuple(tasks),
            )


def _cycle(start: str, state: RuleInput) -> list[str]:
    came_from: dict[str, str] = {}
    todo = [start]
    while todo:
        entity = todo.pop()
        for blocker in state.graph.blockers_of(entity):
            if blocker == start:
                path = [entity]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if blocker not in came_from:
                came_from[blocker] = entity
                todo.append(blocker)
    return []
