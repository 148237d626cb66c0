"""Reports of NCCL's RAS subsystem (`ncclras`, or its port 28028), as text.

Source: NCCL src/ras/client_support.cc, of 2.24 to 2.29; the NCCL user guide, RAS.

Invariants:
    nccl_ras.R1. Different counts of calls in one report are no stall: ranks of a busy job differ all the time.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass, Severity

__all__ = ["BLOCK", "DEAD", "FORMS", "MISSING", "UNEVEN"]

UNEVEN: Final = "nccl-ras-uneven"
MISSING: Final = "nccl-ras-missing"
DEAD: Final = "nccl-ras-dead"

_AGAIN: Final = "ask again: ncclras -v   (counts that stay as they are belong to ranks that are stuck)"
_STACKS: Final = "livedbg stacks PID --native   (of the processes that it names)"

_UNEVEN = re.compile(
    r"#(?P<comm>\d{1,9}-\d{1,9}) \((?P<hash>[0-9a-f]{1,32})\) MISMATCH\s*\n +Communicator ranks have different "
    r"(?P<what>[^\n]{1,100})\n(?P<rest>(?: +(?:\d{1,9} ranks?|Rank \d)[^\n]{0,300}(?:\n|$)){1,200})"
)
_COUNT = re.compile(
    r"^ +(?:(?P<count>\d{1,9}) ranks? have|Rank (?P<rank>\d{1,9}) has) launched up to operation (?P<op>\d{1,18})",
    re.MULTILINE,
)
_RANK = re.compile(r"^ +Rank (?P<rank>\d{1,9}) -- GPU \S+ managed by process \d{1,10} on node", re.MULTILINE)
_MISSING = re.compile(
    r"#(?P<comm>\d{1,9}-\d{1,9}) \([0-9a-f]{1,32}\) INCOMPLETE\s*\n +Missing communicator data from \d{1,9} ranks?\s*\n"
    r" +The missing ranks?: (?P<ranks>[\d, -]{1,400})"
)
_DEAD = re.compile(
    r"(?P<count>\d{1,9}) job process(?:es)? (?:is|are) considered dead[^\n]{0,100}\n"
    r" +Process (?P<pid>\d{1,10}) on node (?P<node>\S{1,200})(?: managing GPUs? (?P<gpu>[\d,-]{1,60}))?"
    r"|PEER_DEAD: Process (?P<pid2>\d{1,10}) on node (?P<node2>\S{1,200})(?: managing GPUs? (?P<gpu2>[\d,-]{1,60}))?"
)


def _uneven(match: re.Match[str]) -> Said | None:
    comm, rest = match["comm"], match["rest"]
    counts = [(int(one["op"]), int(one["count"] or 1), one["rank"]) for one in _COUNT.finditer(rest)]
    if len(counts) < 2:
        return None
    last, first = min(counts), max(counts)
    ranks = [last[2]] if last[2] else [one["rank"] for one in _RANK.finditer(rest)][: last[1]]
    who = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks[:6])}" if ranks else f"{last[1]} ranks"
    more = f" and {len(ranks) - 6} more" if len(ranks) > 6 else ""
    return Said(
        code=UNEVEN,
        key=f"{comm} {last} {first}",
        sentence=f"NCCL RAS: in communicator #{comm} {who}{more} launched up to operation {last[0]:,}, others up to "
        f"{first[0]:,}",
        severity=Severity.WARNING,
        cause=CauseClass.PEER,
        steps=(_AGAIN, _STACKS),
        attributes={"ranks": " ".join(ranks)},
    )


def _missing(match: re.Match[str]) -> Said:
    ranks = match["ranks"].strip(" ,")
    many = "s" if re.search(r"[,-]", ranks) else ""
    return Said(
        code=MISSING,
        key=f"{match['comm']} {ranks}",
        sentence=f"NCCL RAS: rank{many} {ranks} of communicator #{match['comm']} did not answer",
        severity=Severity.WARNING,
        cause=CauseClass.PEER,
        steps=("look at the processes that the report names: they are stopped, or have ended", _AGAIN),
        attributes={"ranks": ranks},
    )


def _dead(match: re.Match[str]) -> Said:
    pid, node, gpu = (match[name] or match[f"{name}2"] for name in ("pid", "node", "gpu"))
    count = int(match["count"] or 1)
    more = f" and {count - 1} more" if count > 1 else ""
    return Said(
        code=DEAD,
        key=f"{node} {pid}",
        sentence=f"NCCL RAS considers process {pid} on {node}{f' (GPU {gpu})' if gpu else ''}{more} dead: "
        "it did not answer for 60 s",
        cause=CauseClass.PEER,
        steps=(f"look on {node}: journalctl -k, and the last lines of the log of process {pid}",),
        attributes={"pid": pid, "host": node},
    )


FORMS: Final = (
    Form((" launched up to operation ", "have different "), _UNEVEN, _uneven),
    Form(("The missing rank",), _MISSING, _missing),
    Form((" considered dead", "PEER_DEAD: "), _DEAD, _dead),
)
BLOCK: Final = (b") MISMATCH", b") INCOMPLETE", b"Missing communicator data", b" managed by process ", b" managing GPU")
"""What the other lines of a report contain."""
