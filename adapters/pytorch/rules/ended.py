"""Rule for collectives in which ranks wait for one whose process has ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from livedbg.adapters.pytorch.rules.calls import Call, calls_of, rank_list
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import how_ended, was_asked, was_hung
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import thread_evidence
from livedbg.model import Severity


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
        verb, waits = "has" if len(call.facts.ended) == 1 else "have", "waits" if len(call.waiting) == 1 else "wait"
        threads = tuple(thread for _, thread in sorted(call.waiting.items()))
        return Finding(
            rule=self.name,
            severity=Severity.ERROR,
            sentence=(
                f"{rank_list(call.facts.ended, start=True)} of {call.facts.ranks} {verb} no process any more"
                f"{_how_ended(processes, call, state)}; {rank_list(call.waiting)} {waits} in {call.title}."
            ),
            entities=(call.task.id, *processes, *threads),
            evidence=tuple(thread_evidence(state.snapshot.threads[thread], state) for thread in threads[:4]),
            since_wall_ns=call.task.since_wall_ns,
            state=VerdictState.CRASHED if any(ended_badly(one, state) for one in processes) else VerdictState.STALLED,
            roots=processes or threads[:1],
        )


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


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (CollectiveEnded(),)
