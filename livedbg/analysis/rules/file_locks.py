"""File locks that another process holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import blocked_in, user_frame
from livedbg.analysis.rules.words import duration, edge_evidence, name_of, since_wall_ns, thread_evidence, waited_ns
from livedbg.model import Frame, Process, Severity, Thread, ThreadState, WaitKind
from livedbg.model.facts import SocketFacts, facts_of
from livedbg.text.wording import sentence_case


class FileLockHeld:
    """Rule for a thread that waits for a file lock of another process."""

    name = "file-lock-held"
    doc = (
        "A thread has waited for a file lock (flock, or a byte range by fcntl) for the threshold (10 s), and another "
        "process holds it. It is a stall if the holder can't go on: all of its threads wait for each other only, or "
        "in pause or sigsuspend for a signal that it does not handle. Otherwise livedbg can't tell: one that waits "
        "for its turn, as a second instance or a standby server does, looks the same. Rests on /proc/locks, on the "
        "locks of open files in /proc/PID/fdinfo, and on the holder's threads. It is no finding where a thread of the "
        "holder waits for connections, to a socket that the waiter has open too, in the function that waits for the "
        "lock: servers take turns so."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        cyclic = {member for cycle in state.graph.cycles for member in cycle}
        for lock, resource in snapshot.resources.items():
            if resource.kind != "flock" or lock in cyclic:
                continue
            waiters = [snapshot.threads[name] for name in state.graph.waiters_of(lock) if name in snapshot.threads]
            holders = [snapshot.processes[p] for p in state.graph.blockers_of(lock) if p in snapshot.processes]
            long = [thread for thread in waiters if self._lasts(thread, state)]
            long = [thread for thread in long if not self._takes_turns(thread, holders, state)]
            if long and holders:
                yield self._finding(long[0], lock, holders, state)

    def _finding(self, waiter: Thread, lock: str, holders: Sequence[Process], state: RuleInput) -> Finding:
        snapshot = state.snapshot
        holder = holders[0]
        threads = snapshot.threads_of(holder.id)
        first = threads[0] if threads else None
        where = ""
        if first is not None and first.waits_in:
            lasts = duration(waited_ns(first, snapshot) or 0)
            where = f" Its first thread is blocked in {blocked_in(first, state)} for {lasts} or more."
        stuck = all(self._can_not_go_on(process, state) for process in holders)
        others = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
        proofs = (edge_evidence(waiter.id, lock, snapshot), edge_evidence(lock, holder.id, snapshot))
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if stuck else Severity.INFO,
            sentence=(
                f"{sentence_case(name_of(waiter.id, snapshot))} waits for the lock of {name_of(lock, snapshot)}, "
                f"held by {name_of(holder.id, snapshot)}{others}.{where}"
            ),
            entities=(waiter.id, lock, *(process.id for process in holders)),
            evidence=(
                *(proof for proof in proofs if proof is not None),
                *((thread_evidence(first, state),) if first is not None else ()),
            ),
            next=(f"livedbg stacks {holder.pid} --native",),
            since_wall_ns=since_wall_ns(waiter, snapshot),
            state=VerdictState.STALLED if stuck else VerdictState.UNKNOWN,
            roots=(holder.id,),
            who=waiter.id,
            holder=holder.id,
        )

    def _lasts(self, thread: Thread, state: RuleInput) -> bool:
        waited = waited_ns(thread, state.snapshot)
        return thread.timed is False and waited is not None and waited >= state.settings.thread_stall_ns

    def _takes_turns(self, waiter: Thread, holders: Sequence[Process], state: RuleInput) -> bool:
        """Return whether a holder waits for connections, to a socket of both, in the function that waits for the lock.

        A lock left behind by a request is waited for elsewhere.
        """
        place, own = user_frame(waiter.id, state), state.snapshot.processes.get(waiter.process)
        threads = [thread for holder in holders for thread in state.snapshot.threads_of(holder.id)]
        if own is None or place is None:
            return False
        return any(self._serves_beside(one, own.pid, state) and _is_in(one, place, state) for one in threads)

    def _serves_beside(self, thread: Thread, pid: int, state: RuleInput) -> bool:
        resources = map(state.snapshot.resources.get, state.graph.blockers_of(thread.id))
        return any(one is not None and pid in facts_of(one.facts, SocketFacts).servers for one in resources)

    def _can_not_go_on(self, process: Process, state: RuleInput) -> bool:
        threads = state.snapshot.threads_of(process.id)
        return bool(threads) and process.outside == "" and all(self._never_ends(t, process, state) for t in threads)

    def _never_ends(self, thread: Thread, process: Process, state: RuleInput) -> bool:
        """Return whether a wait is for a signal that the process does not handle, or for its own threads."""
        if thread.state is not ThreadState.WAITING or not self._lasts(thread, state):
            return False
        return thread.wait is WaitKind.SIGNAL or set(thread.wakers) == {process.id}


def _is_in(thread: Thread, place: Frame, state: RuleInput) -> bool:
    stack = state.snapshot.stacks.get(thread.id)
    return stack is not None and any((f.function, f.file) == (place.function, place.file) for f in stack.frames)


def rules() -> Sequence[Rule]:
    return (FileLockHeld(),)
