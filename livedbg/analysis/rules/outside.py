"""Waits that look like a deadlock, but for something outside of the wait-for graph that could end them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import thing_name
from livedbg.analysis.rules.words import edge_evidence, name_of, pids_of
from livedbg.model import Evidence, Severity
from livedbg.text.wording import sentence_case


class OwnChannel:
    """A thread that waits for a pipe of its own process, which something else could serve."""

    name = "own-channel"
    doc = (
        "A thread waits for a pipe, socket or eventfd whose other end only its own process has, as daemons do that are "
        "woken by a signal handler or a timer (the self-pipe trick), or for a named FIFO. livedbg can't tell whether "
        "what could end the wait will do so: it is idle or stuck. Rests on the handled signals and timers in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a channel."""
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


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (OwnChannel(),)
