"""Waits that may be a deadlock or idle by design."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.behaviour import Behaviour, Ignored, doing, ignored_by, last_waited_for, main_threads
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import blocked_in, thing_name
from livedbg.analysis.rules.words import (
    duration,
    edge_evidence,
    name_of,
    pids_of,
    since_wall_ns,
    thread_evidence,
    waited_ns,
)
from livedbg.model import Evidence, Severity
from livedbg.text.wording import sentence_case


class OwnChannel:
    """Rule for a thread that waits for a pipe of its own process, which something else could serve."""

    name = "own-channel"
    doc = (
        "A thread waits for a pipe, socket or eventfd whose other end only its own process has, as daemons do that are "
        "woken by a signal handler or a timer (the self-pipe trick), or for a named FIFO. livedbg can't tell whether "
        "what could end the wait will do so: it is idle or stuck. Rests on the handled signals and timers in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for resource in state.snapshot.resources.values():
            reason = resource.outside
            waiters = state.graph.waiters_of(resource.id) if reason else ()
            holders = set(state.graph.blockers_of(resource.id))
            own = [w for w in waiters if (t := state.snapshot.threads.get(w)) is not None and holders <= {t.process}]
            if not own or not holders:
                continue
            waiter = own[0]
            proof = edge_evidence(waiter, resource.id, state.snapshot)
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=(
                    f"{sentence_case(name_of(waiter, state.snapshot))} waits for "
                    f"{thing_name(resource.id, state.snapshot)}, whose other end only its own process has: idle if "
                    f"something outside wakes it ({reason}), else stuck."
                ),
                entities=(waiter, resource.id),
                evidence=(
                    *((proof,) if proof is not None else ()),
                    Evidence(kind="proc", source="/proc: who else could end the wait", text=reason),
                ),
                next=tuple(f"livedbg stacks {pid} --native" for pid in pids_of((waiter,))),
                inferred=True,
                state=VerdictState.UNKNOWN,
                roots=(waiter,),
            )


class IgnoredConnection:
    """Rule for a thread that waits for an answer of a server that ignores its connection."""

    name = "ignored-connection"
    doc = (
        "A main thread waits, directly or through others, without a time limit and for the threshold (10 s) at a "
        "connection to another process, which waits for connections meanwhile, and has not read what it was sent, or "
        "of which no thread waits at the other end. The request is lost, or the server answers once something else "
        "has come: livedbg can't tell. Rests on who has the other end open, on the length of its queue "
        "(/proc/PID/net/tcp, sock_diag), and on what the threads of the server wait for."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        mains = main_threads(state.snapshot.threads.values(), state.snapshot)
        ends = ((main, last_waited_for(main, state)) for main in mains)
        served = [main for main, end in ends if end is not main and doing(end, state).kind is Behaviour.SERVING]
        found = (ignored_by(main, state) for main in served)
        for one in {each.socket.id: each for each in found if each is not None}.values():
            yield self._finding(one, state)

    def _finding(self, found: Ignored, state: RuleInput) -> Finding:
        waiter, snapshot = found.waiter, state.snapshot
        servers = [name for name in state.graph.blockers_of(found.socket.id) if name in snapshot.processes]
        lasts = duration(waited_ns(waiter, snapshot) or 0)
        left = f"has left {found.unread:,} bytes unread" if found.unread else "does not look at the connection"
        proofs = (
            edge_evidence(waiter.id, found.socket.id, snapshot),
            edge_evidence(found.socket.id, servers[0], snapshot),
        )
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(waiter.id, snapshot))} is blocked in {blocked_in(waiter, state)} for {lasts} "
                f"or more; {name_of(servers[0], snapshot)}, at the other end, {left}."
            ),
            entities=(waiter.id, found.socket.id, *servers),
            evidence=(*(proof for proof in proofs if proof is not None), thread_evidence(waiter, state)),
            next=tuple(f"livedbg stacks {pid} --native" for pid in pids_of((waiter.id, *servers))),
            since_wall_ns=since_wall_ns(waiter, snapshot),
            inferred=True,
            state=VerdictState.UNKNOWN,
            decides=True,
            roots=(waiter.id, *servers),
        )


def rules() -> Sequence[Rule]:
    return (OwnChannel(), IgnoredConnection())
