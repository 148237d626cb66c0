"""Sentences about ranks: who lacks whom, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.adapters.pytorch.collectives.inside import in_backward, in_step
from livedbg.adapters.pytorch.rules.calls import Call, rank_list
from livedbg.analysis.place_names import line_of
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import user_frame


def missing_sentence(
    call: Call, rank: int, what: str, behind: Sequence[int], state: RuleInput, *, whole: bool = False
) -> str:
    """Of a rank that others wait for.

    Args:
        call: what it has not entered.
        rank: the rank.
        what: what it does instead.
        behind: the ranks that wait for it, directly or through others.
        state: all that is known.
        whole: `what` goes on from `Rank 2 `, and says all of it.
    """
    wait = "waits" if len(behind) == 1 else "wait"
    if whole and not call.facts.kind:
        where = f" in {call.short}" if set(behind) == set(call.waiting) else ""
        return f"Rank {rank} {what}; {rank_list(behind)} {wait} for it{where}."
    if whole:
        what = f"it {what}"
    if call.facts.kind in ("init_process_group", "new_group"):
        where = f"{call.facts.kind}{line_at(call, call.waiting, state)}"
        count = len(call.facts.inside)
        inside = f"{count} of {call.facts.ranks} ranks {'is' if count == 1 else 'are'} in {where}"
        return f"{inside}; rank {rank} does not come: {what}."
    if not call.is_message:
        enters = "is not in" if call.facts.kind else "has not entered"
        return f"Rank {rank} of {call.facts.ranks} {enters} {call.title}: {what}; {rank_list(behind)} {wait} for it."
    does = "send" if call.facts.kind == "recv" else "receive"
    waits = f"{rank_list(call.waiting, start=True)} waits in {call.title}{line_at(call, call.waiting, state)}"
    others = f"; {rank_list(behind)} wait for it" if len(behind) > 1 else ""
    return f"{waits}, which does not {does}: {what}{others}."


def backward_sentence(calls: Sequence[Call], state: RuleInput) -> str:
    """Of ranks that wait in the backward pass of DistributedDataParallel for others that have left the step; "" for
    others.

    Args:
        calls: those that the ranks are in; one alone, where they call different operations at one number.
        state: all that is known.
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
        verb = "waits" if len(numbers) == 1 else "wait"
        parts.append(f"{rank_list(numbers, start=not parts)} {verb} in backward for {title}")
    for title, ranks in left.items():
        numbers = [rank for rank, _ in ranks]
        verbs = "has left the step and is" if len(numbers) == 1 else "have left the step and are"
        parts.append(f"{rank_list(numbers)} {verbs} in {title}{line_at(ranks[0][1], numbers, state)}")
    return f"{'; '.join(parts)}: parameters unused on {rank_list(r for ranks in left.values() for r, _ in ranks)}?"


def circle_sentence(calls: Sequence[Call], state: RuleInput) -> str:
    """Of ranks that all receive from each other, or all send; "" for others."""
    kinds = {call.facts.kind for call in calls}
    if kinds not in ({"recv"}, {"send"}):
        return ""
    receive = kinds == {"recv"}
    ranks = sorted(rank for call in calls for rank in call.waiting)
    lines = {line_at(call, call.waiting, state) for call in calls}
    where = lines.pop() if len(lines) == 1 else ""
    nobody = f"no matching {'send' if receive else 'receive'} was seen"  # with the same tag
    verb = "receive from" if receive else "send to"
    if len(ranks) == 2:
        return f"Ranks {ranks[0]} and {ranks[1]} both {verb} each other{where}; {nobody}"
    return f"{rank_list(ranks, start=True)} {verb} each other in a circle{where}; {nobody}"


def roots_sentence(call: Call, state: RuleInput) -> str:
    """`broadcast #5: rank 2 expects it from rank 1 (train.py:55), the others from rank 0.`"""
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
    """` (train.py:41)`: the user's line at which ranks wait, if it is one."""
    frames = [user_frame(call.waiting[rank], state) for rank in ranks if rank in call.waiting]
    lines = {line_of(frame) for frame in frames if frame is not None}
    return f" ({next(iter(lines))})" if len(lines) == 1 and "" not in lines else ""
