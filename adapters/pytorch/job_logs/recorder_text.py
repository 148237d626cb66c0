"""What PyTorch's analysis of flight recorder dumps prints (`torchfrtrace`).

Source: tools/flight_recorder/components/{types,builder,utils}.py and torch/distributed/flight_recorder.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said

__all__ = ["ABSENT", "APART", "BLOCK", "FORMS"]

APART: Final = "recorder-mismatch"
ABSENT: Final = "recorder-absent"

_HEAD: Final = (
    r"(?:[Cc]ollective (?:ID )?(?P<number>\d{1,18}) at entry \d{1,18}[^\n]{0,40}\n"
    r"|[Cc]ollective,? sequence number: (?P<seq>\d{1,18})[^\n]{0,40}\n)?(?:internal record id: \d{1,18}\s*\n)?"
    r"(?:group info: (?P<group>[^\n]{1,200})\n)?collective: (?:\w{1,20}:)?(?P<op>\w{1,60})\s*\n"
)
_MISMATCH = re.compile(_HEAD + r"(?:[^\n]{0,2000}\n){0,12}?error msg: (?P<what>[^\n]{1,4000})")
_CULPRIT = re.compile(
    r"Culprit rank (?P<rank>\d{1,9}); Error type: (?P<type>\w{1,60})"
    r"(?:, Expected [\w ]{1,40}: '(?P<want>[^'\n]{0,200})' does not match found [\w ]{1,40}: '(?P<got>[^'\n]{0,200})')?"
)
_MISSING = re.compile(
    r"Not all ranks joining " + _HEAD + r"(?:[^\n]{0,2000}\n){0,12}?missing ranks: \{(?P<missing>[\d, ]{1,400})\}"
)
_TYPES: Final = {
    "SIZE_OR_SYNTAX_MISMATCH": "with another size",
    "COLLECTIVE_DTYPE_MISMATCH": "with another type",
    "COLLECTIVE_TYPE_MISMATCH": "where the others called another collective",
    "COLLECTIVE_STATE_MISMATCH": "and got elsewhere with it",
}


def _mismatch(match: re.Match[str]) -> Said | None:
    culprits = list(_CULPRIT.finditer(match["what"]))
    if not culprits:
        return None
    ranks = sorted({int(culprit["rank"]) for culprit in culprits})
    first = culprits[0]
    shown = ", ".join(map(str, ranks[:6])) + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")
    number = match["number"] or match["seq"]
    how = _TYPES.get(first["type"], f"differently ({first['type']})")
    sizes = f": {first['got']} instead of {first['want']}" if first["want"] else ""
    return Said(
        code=APART,
        key=f"{number} {match['op']} {shown}",
        who=f"Rank{'s' if len(ranks) > 1 else ''} {shown}",
        sentence=f"called {match['op']}{f' #{number}' if number else ''}{_of(match)} {how}{sizes}",
        writer=f"rank {ranks[0]}",
        steps=(f"look at rank {ranks[0]}'s stack at that collective: TORCH_NCCL_TRACE_CPP_STACK=1, or its log",),
        attributes={"ranks": " ".join(map(str, ranks)), "op": match["op"], "type": first["type"]},
    )


def _missing(match: re.Match[str]) -> Said:
    ranks = sorted(int(word) for word in match["missing"].replace(",", " ").split())
    shown = ", ".join(map(str, ranks[:6])) + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")
    number = match["number"] or match["seq"]
    return Said(
        code=ABSENT,
        key=f"{number} {match['op']} {shown}",
        who=f"Rank{'s' if len(ranks) > 1 else ''} {shown}",
        sentence=f"did not join {match['op']}{f' #{number}' if number else ''}{_of(match)}",
        writer=f"rank {ranks[0]}",
        steps=(f"read the last lines of rank {ranks[0]}, and what it called instead",),
        attributes={"missing": " ".join(map(str, ranks)), "op": match["op"]},
    )


def _of(match: re.Match[str]) -> str:
    group = (match["group"] or "").strip()
    return f" of group {group.rpartition(':')[2]}" if group else ""


FORMS: Final = (
    Form(("Culprit rank ",), _MISMATCH, _mismatch),
    Form(("missing ranks: {",), _MISSING, _missing),
)
BLOCK: Final = (
    b" at entry ",
    b"ollective sequence number: ",
    b"collective, sequence number",
    b"group info: ",
    b"collective: nccl:",
)
"""What the other lines of such a block contain."""
