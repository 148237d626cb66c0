"""Several outputs that differ in one comparison are one message: how many, which, and by how much at most.

A signature tells an output by the attributes `output` (its name), `most` (the difference), `want` and `got` (a pair of
values), `case` (the test that ended below it), and `differs` (what is said before the outputs).

Invariants:
    differing.D1. Outputs of one comparison stand next to each other, and the line that names the test ends them.
    differing.D2. A difference that is no number (of NaN) is never the largest.
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


class OutputFacts(Facts, frozen=True, kw_only=True, tag="output"):
    """What a signature tells of one output."""

    output: str = ""
    most: str = ""
    want: str = ""
    got: str = ""
    case: str = ""
    differs: str = ""


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
    if (before.log, before.writer) != (said.log, said.writer) or before.message.over != said.message.over:
        return False
    one, other = _facts(before), _facts(said)
    if not (one.output and other.output) or one.case:
        return False
    return 0 <= said.message.first - before.message.last <= _NEAR


def _joined(group: Sequence[Diagnostic]) -> Diagnostic:
    if len(group) == 1:
        return group[0]
    facts = [_facts(said) for said in group]
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
