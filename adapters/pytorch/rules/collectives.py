"""Rules for pending collectives: absent ranks and what blocks them, different order of groups, different calls.

Invariants:
    rules_collectives.R1. An absent rank is a stall only by its own wait (absent.absence_of), never by that of
        the others: they wait in a healthy job, too.
    rules_collectives.R3. Ranks wait for each other only by the threads that enter the awaited call, if these are known:
        another thread of such a rank may save a checkpoint meanwhile.
    rules_collectives.R2. A rank waits for a collective only if the stack of one of its threads is in it: one that was
        only enqueued blocks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.pytorch.collectives.inside import in_backward, in_step
from livedbg.adapters.pytorch.rules.absent import absence_of, another_may, others_may
from livedbg.adapters.pytorch.rules.calls import Call, calls_of, on_its_way, rank_list, who_wait
from livedbg.adapters.pytorch.rules.circles import circle_of, held_up_in_another, ranks_behind, waiting_processes
from livedbg.adapters.pytorch.rules.progress import is_usual
from livedbg.adapters.pytorch.rules.threads import at_line
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import places_in
from livedbg.analysis.rules.words import thread_evidence
from livedbg.model import Evidence, Severity


def missing_sentence(
    call: Call, rank: int, what: str, behind: Sequence[int], state: RuleInput, *, whole: bool = False
) -> str:
    """Return a sentence on an absent rank that others wait for.

    Args:
        call: the call that it has not entered.
        what: what it does instead.
        behind: the ranks that wait for it, directly or indirectly.
        whole: `what` continues `Rank 2 ` and is complete.
    """
    if whole and not call.facts.kind:
        where = f" in {call.short}" if set(behind) == set(call.waiting) else ""
        return f"Rank {rank} {what}; {who_wait(behind)} for it{where}."
    if whole:
        what = f"it {what}"
    if call.facts.kind in ("init_process_group", "new_group"):
        where = f"{call.facts.kind}{line_at(call, call.waiting, state)}"
        count = len(call.facts.inside)
        inside = f"{count} of {call.facts.ranks} ranks {'is' if count == 1 else 'are'} in {where}"
        return f"{inside}; rank {rank} does not come: {what}."
    if not call.is_message:
        enters = "is not in" if call.facts.kind else "has not entered"
        return f"Rank {rank} of {call.facts.ranks} {enters} {call.title}: {what}; {who_wait(behind)} for it."
    does = "send" if call.facts.kind == "recv" else "receive"
    waits = f"{rank_list(call.waiting, start=True)} waits in {call.title}{line_at(call, call.waiting, state)}"
    others = f"; {rank_list(behind)} wait for it" if len(behind) > 1 else ""
    return f"{waits}, which does not {does}: {what}{others}."


def backward_sentence(calls: Sequence[Call], state: RuleInput) -> str:
    """Return a sentence on ranks in DistributedDataParallel's backward pass that wait for ranks outside it, or "".

    Args:
        calls: those that the ranks are in; a single one if they call different operations at one number.
    """
    backward: dict[str, list[tuple[int, Call]]] = {}
    left: dict[str, list[tuple[int, Call]]] = {}
    for call in calls:
        for rank, thread in call.waiting.items():
            stack = state.snapshot.stacks.get(thread)
            operation = call.facts.does.get(rank, call.task.kernel or "").partition(" ")[0]
            title = call.short.replace(call.task.kernel or operation, operation, 1)
            if in_backward(stack) and operation == "all_reduce":
                backward.setdefault(title, []).append((rank, call))
            elif stack is None or in_step(stack):
                return ""
            else:
                left.setdefault(title, []).append((rank, call))
    if not backward or not left:
        return ""
    parts: list[str] = []
    for title, ranks in backward.items():
        numbers = [rank for rank, _ in ranks]
        parts.append(f"{who_wait(numbers, start=not parts)} in backward for {title}")
    for title, ranks in left.items():
        numbers = [rank for rank, _ in ranks]
        verbs = "has left the step and is" if len(numbers) == 1 else "have left the step and are"
        parts.append(f"{rank_list(numbers)} {verbs} in {title}{line_at(ranks[0][1], numbers, state)}")
    return f"{'; '.join(parts)}: parameters unused on {rank_list(r for ranks in left.values() for r, _ in ranks)}?"


def circle_sentence(calls: Sequence[Call], state: RuleInput) -> str:
    """Return a sentence on ranks that all receive from each other, or all send; "" for others."""
    kinds = {call.facts.kind for call in calls}
    if kinds not in ({"recv"}, {"send"}):
        return ""
    receive = kinds == {"recv"}
    lines = {line_at(call, call.waiting, state) for call in calls}
    waiting = dict(sorted((rank, thread) for call in calls for rank, thread in call.waiting.items()))
    where = lines.pop() if len(lines) == 1 else places_in(waiting.values(), state, functions=False)
    nobody = f"no matching {'send' if receive else 'receive'} was seen"  # with the same tag
    verb = "receive from" if receive else "send to"
    if len(waiting) == 2:
        first, second = waiting
        return f"Ranks {first} and {second} both {verb} each other{where}; {nobody}"
    return f"{rank_list(waiting, start=True)} {verb} each other in a cycle{where}; {nobody}"


def roots_sentence(call: Call, state: RuleInput) -> str:
    """Return `broadcast #5: rank 2 expects it from rank 1 (train.py:55), the others from rank 0.`"""
    by_root: dict[int, list[int]] = {}
    for rank, root in sorted(call.facts.roots.items()):
        by_root.setdefault(root, []).append(rank)
    ordered = sorted(by_root.items(), key=lambda one: (len(one[1]), one[0] in one[1], one[1]))
    gives = call.task.kernel in ("broadcast", "scatter")
    parts = []
    for number, (root, ranks) in enumerate(ordered):
        whole = len(ordered) == 2 and number and len(call.facts.roots) == call.facts.ranks and len(ranks) > 1
        who = "the others" if whole else rank_list(ranks)
        alone = len(ranks) == 1
        if ranks == [root]:
            says = "sends it itself" if gives else "receives it itself"
        else:
            verbs = ("expects", "expect") if gives else ("sends", "send")
            verb = "" if number else f"{verbs[not alone]} it "
            says = f"{verb}{'from' if gives else 'to'} rank {root}"
        parts.append(f"{who} {says}{line_at(call, ranks, state)}")
    rest = sorted(set(call.facts.inside) - call.facts.roots.keys()) if len(parts) > 1 else []
    unknown = f"; which root {rank_list(rest)} had is not known" if rest else ""
    return f"{call.title}: {', '.join(parts)}{unknown}."


def line_at(call: Call, ranks: Iterable[int], state: RuleInput) -> str:
    """Return ` (train.py:41)`: the user's line at which ranks wait, if the same."""
    return at_line((call.waiting[rank] for rank in ranks if rank in call.waiting), state)


_SEVERITY: Final = {VerdictState.STALLED: Severity.ERROR, VerdictState.RUNNING: Severity.INFO}

_UNUSED: Final = (
    "find_unused_parameters=True of DistributedDataParallel, if ranks take different branches of the model",
    "as many batches on all ranks, if some have left the loop before the others (or DistributedDataParallel.join)",
)


def _overdue(state: RuleInput) -> list[Call]:
    return [call for call in calls_of(state) if call.age_ns >= state.settings.thread_stall_ns and call.waiting]


class CollectiveMissing:
    """A rank that has not entered a collective in which others wait."""

    name = "collective-missing"
    doc = (
        "Ranks have waited in a collective of torch.distributed for the threshold (10 s) and longer, and one or more "
        "ranks of its group have not entered it. It is a stall where the missing rank itself is in one wait without a "
        "time limit for the threshold, which nothing from outside explains, and neither its process nor a child of it "
        "makes progress; also where it has ended or is stopped. A missing rank that computes is late, and the job "
        "runs; one that sleeps, or waits for what is not seen, is `unknown`. Rests on the Flight Recorders in the "
        "ranks' memory, read twice: between the two looks the waiting ranks have enqueued and completed nothing. A "
        "rank that is not seen (on another host) is named as such. The same is said of a rank that does not send what "
        "another waits for in `recv` (or receive what it waits for in `send`), and of one that is not in a "
        "`monitored_barrier`, `init_process_group` or `new_group`: these are read from the Python frames in memory, "
        "and the thread has not run since for the threshold (of the last two, which poll: the missing rank's). Where "
        "another thread of the missing rank works, sleeps or waits for something from outside, that one may send, and "
        "it is `unknown`; so is a wait for an `Event` or a `SimpleQueue` in a process that handles signals other than "
        "SIGINT, SIGCHLD, SIGPIPE and faults."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each absent rank that itself waits in no collective."""
        calls = _overdue(state)
        waits = waiting_processes(calls)
        told = set()
        for call in calls:
            for rank in call.facts.absent:
                process = call.processes.get(rank, "")
                if process and process not in told and not held_up_in_another(call, rank, waits):
                    told.add(process)
                    yield self._missing(call, rank, calls, state)
        yield from (self._unseen(call, state) for call in calls if call.facts.unseen and not call.facts.absent)

    def _missing(self, call: Call, rank: int, calls: Sequence[Call], state: RuleInput) -> Finding:
        process = call.processes[rank]
        absence = absence_of(process, state, call.facts.handles.get(rank, ""))
        stuck = absence.state
        what = absence.what
        may = others_may({process: absence.entity}, state) if call.is_message else ""
        if may and stuck is VerdictState.STALLED:
            what, stuck = f"{what}; another of its threads may{'' if may == ' ' else may}", VerdictState.UNKNOWN
        missing = {known.processes[one] for known in calls for one in known.facts.absent if one in known.processes}
        others = sorted(missing - waiting_processes(calls).keys())
        if stuck is VerdictState.STALLED and (other := another_may(process, absence, others, state)):
            what, stuck = f"{what}, which {other} may end", VerdictState.UNKNOWN
        if rank in call.facts.moved:
            what, stuck = f"it goes on with other collectives; {what}", VerdictState.UNKNOWN
        seen = absence.entity in state.snapshot.threads
        if stuck is not VerdictState.RUNNING and seen and is_usual(call, process, state):
            what, stuck = f"{what}; it comes late each time", VerdictState.RUNNING
        does = absence.does if stuck is VerdictState.STALLED else ""
        behind = ranks_behind(rank, ((call.waiting, call.facts.absent) for call in calls))
        threads = tuple(call.waiting[one] for one in sorted(call.waiting))
        entity = state.snapshot.threads.get(absence.entity)
        return Finding(
            rule=self.name,
            severity=_SEVERITY.get(stuck, Severity.WARNING),
            sentence=missing_sentence(call, rank, does or what, behind, state, whole=bool(does)),
            entities=tuple(dict.fromkeys((absence.entity, process, call.task.id, *threads))),
            evidence=(
                _recorder(call, state),
                *((thread_evidence(entity, state),) if entity is not None else ()),
                *(thread_evidence(state.snapshot.threads[one], state) for one in threads[:4]),
            ),
            next=(f"livedbg stacks {process.rpartition('/')[2]} --native",),
            since_wall_ns=call.task.since_wall_ns,
            state=stuck,
            roots=(absence.entity,),
            decides=stuck is VerdictState.UNKNOWN and not absence.busy and not on_its_way(call, rank, state),
        )

    def _unseen(self, call: Call, state: RuleInput) -> Finding:
        are = "is" if len(call.facts.unseen) == 1 else "are"
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{who_wait(call.waiting, start=True)} in {call.title}{line_at(call, call.waiting, state)}; "
                f"{rank_list(call.facts.unseen)} of {call.facts.ranks} {are} not among the processes that are watched."
            ),
            entities=(call.task.id, *call.waiting.values()),
            evidence=(_recorder(call, state),),
            next=("livedbg attach torchrun:PID, or on the host of the other ranks",),
            since_wall_ns=call.task.since_wall_ns,
            state=VerdictState.UNKNOWN,
            decides=True,
        )


class CollectiveOrder:
    """Ranks that wait for each other in collectives of different groups."""

    name = "collective-order"
    doc = (
        "Ranks wait for each other in a circle: each waits, for the threshold (10 s) and longer, in a collective that "
        "the next one has not entered, because that waits in another one. They take their groups, or the collectives "
        "of one group, in another order. It is a stall, not a proved deadlock: the time limit of the group ends it. "
        "Where some wait in the backward pass of DistributedDataParallel and the others are in no pass of a module, "
        "these may not have used all parameters. The same holds of ranks that all receive from each other, or all "
        "send. Where another thread of them works, sleeps or waits for something from outside, that one may send, and "
        "it is `unknown`. "
        "Rests on the same as collective-missing."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each cycle."""
        calls = _overdue(state)
        waits = waiting_processes(calls)
        told: set[str] = set()
        for thread in dict.fromkeys(one for call in calls for one in call.waiting.values()):
            circle = circle_of(thread, waits)
            if circle and told.isdisjoint(circle):
                told |= set(circle)
                yield self._finding([call for call in calls if set(circle) & set(call.waiting.values())], state)

    def _finding(self, calls: Sequence[Call], state: RuleInput) -> Finding:
        first: dict[tuple[int, ...], Call] = {}
        for call in calls:  # one thread may wait for several, as in a backward pass: the oldest is the one to tell
            first.setdefault(tuple(sorted(call.waiting)), call)
        ordered = sorted(first.values(), key=lambda call: -len(call.waiting))
        parts = []
        for number, call in enumerate(ordered):
            alone = len(call.waiting) == 1
            verb = ("waits in" if alone else "wait in") if not number else ("is in" if alone else "are in")
            parts.append(
                f"{rank_list(call.waiting, start=not number)} {verb} {call.short}{line_at(call, call.waiting, state)}"
            )
        swapped = (
            len({call.facts.group for call in ordered}) > 1
            and not any(call.facts.kind for call in ordered)
            and len({call.task.name for call in ordered}) == 1
        )
        why = "the groups are taken in another order" if swapped else "the ranks do not call the same in one order"
        threads = tuple(thread for call in ordered for _, thread in sorted(call.waiting.items()))
        backward = backward_sentence(ordered, state)
        sentence = backward.rstrip("?") or circle_sentence(ordered, state) or f"{'; '.join(parts)}: {why}"
        waiting = {call.processes[rank]: thread for call in calls for rank, thread in call.waiting.items()}
        may = others_may(waiting, state) if any(call.is_message for call in calls) else ""
        if may:
            sentence += f"; another of their threads may do it{'' if may == ' ' else may}"
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if may else Severity.ERROR,
            sentence=f"{sentence}{'?' if backward else '.'}",
            entities=(*(call.task.id for call in ordered), *threads),
            evidence=(
                *(_recorder(call, state) for call in ordered),
                *(thread_evidence(state.snapshot.threads[one], state) for one in threads[:8]),
            ),
            next=("let all ranks take the groups in one order",) if swapped else _UNUSED if backward else (),
            since_wall_ns=max(call.task.since_wall_ns or 0 for call in calls) or None,
            state=VerdictState.UNKNOWN if may else VerdictState.STALLED,
            decides=bool(may),
            roots=tuple(call.waiting[min(call.waiting)] for call in ordered),
        )


class CollectiveDiffers:
    """All ranks are in a collective that does not complete."""

    name = "collective-differs"
    doc = (
        "All ranks of a group have entered one collective, some have waited in it for the threshold (10 s) and longer, "
        "and it does not complete. It is a stall where the ranks call different operations, or give them tensors of "
        "different sizes, or expect it from different ranks (broadcast, scatter; reduce and gather: for different "
        "ranks); else it is `unknown`: the network, or what one of them gave it. Rests on the Flight Recorders, and "
        "for the ranks it is expected from on the variables of the Python frames in memory; of ranks that have "
        "completed a broadcast or scatter of gloo the root is inferred, where what the others wait for allows only one."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for call in _overdue(state):
            if not call.facts.absent and not call.facts.unseen and not call.facts.ended:
                yield self._finding(call, state)

    def _finding(self, call: Call, state: RuleInput) -> Finding:
        where = line_at(call, call.waiting, state)
        said: dict[str, list[int]] = {}
        for rank, text in call.facts.does.items():
            said.setdefault(text, []).append(rank)
        roots = set(call.facts.roots.values())
        backward = backward_sentence([call], state) if said else ""
        if len(roots) > 1:
            sentence = roots_sentence(call, state)
        elif backward:
            sentence = backward
        elif said:
            ordered = sorted(said.items(), key=lambda one: one[1])
            lines = ["" if where else line_at(call, ranks, state) for _, ranks in ordered]
            parts = [f"{rank_list(one[1])}: {one[0]}{at}" for one, at in zip(ordered, lines, strict=True)]
            sentence = f"{call.title} is not the same on all ranks{where}: {'; '.join(parts)}."
        else:
            sentence = (
                f"{who_wait(call.waiting, start=True)} in {call.title}{where}; all {call.facts.ranks} ranks "
                "are in it, and it does not complete."
            )
        differs = bool(said) or len(roots) > 1
        threads = tuple(thread for _, thread in sorted(call.waiting.items()))
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if differs else Severity.WARNING,
            sentence=sentence,
            entities=(call.task.id, *threads),
            evidence=(
                _recorder(call, state),
                *(thread_evidence(state.snapshot.threads[one], state) for one in threads[:8]),
            ),
            next=_UNUSED if backward else (),
            since_wall_ns=call.task.since_wall_ns,
            state=VerdictState.STALLED if differs else VerdictState.UNKNOWN,
            decides=not differs,
        )


def _recorder(call: Call, state: RuleInput) -> Evidence:
    parts = [f"{call.title}: enqueued by {rank_list(call.facts.inside)}"]
    if call.facts.absent:
        parts.append(f"not by {rank_list(call.facts.absent)}")
    if call.facts.unseen:
        parts.append(f"nothing known of {rank_list(call.facts.unseen)}")
    if call.facts.inferred:
        parts.append(f"inferred from what gloo's threads wait for: the root that {rank_list(call.facts.inferred)} had")
    if limit := call.facts.timeout_ms:
        parts.append(f"it ends with an error {limit / 1000:g} s after it was enqueued")
    return Evidence(
        kind="memory",
        source="Flight Recorder",
        text="; ".join(parts),
        at_wall_ns=state.snapshot.now().wall_ns or None,
    )
