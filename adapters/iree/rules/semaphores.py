"""Waits for a value of a semaphore that no queued operation will signal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.iree.facts import semaphore_facts
from livedbg.adapters.iree.rules.waited import longest_wait
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import duration, edge_evidence, many, name_of
from livedbg.model import Evidence, Resource, Severity
from livedbg.model.snapshot import Snapshot

_SHOWN: Final = 3


class MissingSignal:
    """A value of a semaphore that is waited for, and that nothing in the queue signals."""

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
        """One finding a value that is missing."""
        for resource in state.snapshot.resources.values():
            if semaphore_facts(resource).missing:
                waiters = state.graph.waiters_of(resource.id)
                if waiters:
                    yield _finding(self.name, resource, waiters, state)


def who_could_signal(resource: Resource, snapshot: Snapshot) -> str:
    """`signaller could signal it`; "" for nobody. Names of threads may be known later than the semaphore is."""
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


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (MissingSignal(),)
