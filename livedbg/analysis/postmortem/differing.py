"""Several outputs that differ in one comparison are one message: how many, which, and by how much at most.

A signature tells an output by the attributes `output` (its name), `most` (the difference), `want` and `got` (a pair of
values), `case` (the test that ended below it), and `differs` (what is said before the outputs). Where ranks check their
own results, `writer` is the rank, and `also` what is said of it behind what the first one found.

Invariants:
    differing.D1. Outputs of one comparison stand next to each other, and the line that names the test ends them.
    differing.D2. A difference that is no number (of NaN) is never the largest.
    differing.D3. Of results that ranks checked themselves, the first of each rank is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts
from livedbg.text.wording import listing

_NEAR: Final = 3  # lines between two of them
_NAMED: Final = 5
_RANKS: Final = 2


class OutputFacts(Facts, frozen=True, kw_only=True, tag="output"):
    """What a signature tells of one output."""

    output: str = ""
    most: str = ""
    want: str = ""
    got: str = ""
    case: str = ""
    differs: str = ""
    writer: str = ""
    also: str = ""


def with_outputs_joined(told: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the messages, those about outputs of one comparison joined to one."""
    return [_joined(group) for group in _groups(told)]


def _groups(told: Sequence[Diagnostic]) -> Iterator[list[Diagnostic]]:
    group: list[Diagnostic] = []
    for said in told:
        if group and not _goes_with(group[-1], said):
            yield group
            group = []
        group.append(said)
    if group:
        yield group


def _goes_with(before: Diagnostic, said: Diagnostic) -> bool:
    one, other = _facts(before), _facts(said)
    writers = (before.writer, said.writer) if not one.also else ("", "")
    if before.log != said.log or writers[0] != writers[1] or before.message.over != said.message.over:
        return False
    if not (one.output and other.output) or one.case:
        return False
    return 0 <= said.message.first - before.message.last <= _NEAR


def _joined(group: Sequence[Diagnostic]) -> Diagnostic:
    if len(group) == 1:
        return group[0]
    facts = [_facts(said) for said in group]
    if facts[0].also:
        return _of_ranks(group, facts)
    largest = max(range(len(group)), key=lambda at: _number(facts[at].most))
    names = list(dict.fromkeys(one.output for one in facts))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    most = f": by up to {facts[largest].most} in {facts[largest].output}" if _number(facts[largest].most) >= 0 else ""
    wanted = [one.output for one in facts if _is_nan(one.want)]
    got = [one.output for one in facts if _is_nan(one.got) and one.output not in wanted]
    nan = [f"NaN is expected in {listing(wanted)}"] if wanted else []
    nan += [f"{listing(got)} {'has' if len(got) == 1 else 'have'} NaN"] if got else []
    said = f"{facts[0].differs} in {len(names)} outputs ({', '.join(names[:_NAMED])}{more}){most}"
    lead, others = group[largest], [one for one in group if one is not group[largest]]
    evidence = (*lead.evidence, *(proof for one in others for proof in one.evidence[:1]))
    return replace(lead, sentence="; ".join([said, *nan]), evidence=evidence)


def _of_ranks(group: Sequence[Diagnostic], facts: Sequence[OutputFacts]) -> Diagnostic:
    """Return the first message, with the first of each other rank (D3)."""
    firsts = {one.writer: one.also for one in reversed(facts)}
    others = sorted(also for writer, also in firsts.items() if writer != facts[0].writer)
    more = [f"and {len(others) - _RANKS} more ranks"] if len(others) > _RANKS else []
    evidence = tuple(proof for said in group for proof in said.evidence)
    return replace(group[0], sentence="; ".join([group[0].sentence, *others[:_RANKS], *more]), evidence=evidence)


def _facts(said: Diagnostic) -> OutputFacts:
    return said.message.read(OutputFacts)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return -1
    return abs(number) if math.isfinite(number) else -1


def _is_nan(text: str) -> bool:
    return text.lstrip("+-").lower() == "nan"
